"""Finds a module that could not be imported in folders near the project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_FOLDERS = 500
MAX_DEPTH = 3


def folder_with(module: str) -> Path | None:
    """Return a folder near the working folder from which the module can be imported, or None.

    Folders below are searched first, nearest first; then the two above.
    """
    name = module.partition(".")[0]
    if not name.isidentifier():
        return None
    here = Path.cwd()
    below = sorted(_folders_below(here), key=lambda path: len(path.parts))
    for folder in [*below, *here.parents[:2]]:
        if (folder / f"{name}.py").is_file() or _is_package(folder / name):
            return folder
    return None


def _folders_below(root: Path) -> Iterator[Path]:
    count = 0
    for current, folders, files in os.walk(root):
        depth = len(Path(current).relative_to(root).parts)
        folders[:] = [] if depth >= MAX_DEPTH or "pyvenv.cfg" in files else _source_folders(folders)
        if "pyvenv.cfg" in files:
            continue
        count += 1
        if count > MAX_FOLDERS:
            return
        if depth:
            yield Path(current)


def _source_folders(folders: list[str]) -> list[str]:
    """Return the names of folders that may contain source."""
    return sorted(name for name in folders if name.isidentifier() and name != "__pycache__")


def _is_package(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))
