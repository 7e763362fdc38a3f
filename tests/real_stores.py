"""Copies of small stores that CrewAI wrote, and checks that reading changes nothing."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

STORES = Path(__file__).resolve().parent / "recorded_stores"
VERSIONS = ("1.14.1", "1.14.2", "1.14.7", "1.15.30")


def copy_of(name: str, into: Path) -> Path:
    """Return a copy of a store such as ``1.15.30/json`` or ``1.14.1/cp.db``."""
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    source = STORES / name
    return Path(shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target))


def hashes_below(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def one_checkpoint(**changes: Any) -> dict[str, Any]:
    """Return a small real flow checkpoint, decoded, with some top-level fields changed."""
    path = next((STORES / "1.15.30/flow/main").glob("*16755e62*"))
    return {**json.loads(path.read_text()), **changes}


def write_checkpoint(
    folder: Path,
    checkpoint_id: str,
    parent_id: str | None = None,
    branch: str = "main",
    **changes: Any,
) -> Path:
    """Write a checkpoint as the engine does; ``changes`` are top-level fields."""
    body = one_checkpoint(parent_id=parent_id, branch=branch, **changes)
    path = folder / branch / f"{checkpoint_id}_p-{parent_id or 'none'}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))
    return path
