"""The folders that ``langgraph.json`` adds to the import path (viewer/engines/langgraph/configuration.py)."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from forkline_runner import findings, project

CONFIGURATION = "langgraph.json"
MAX_BYTES = 512 * 1024
MAX_FOLDERS = 50


def enter(folder: str) -> None:
    """Change to the project's folder. Make it, its ``src`` and its dependencies importable. Raises Refused.

    The dependencies come last, as with LangGraph's own server: installed packages keep their names.
    """
    project.enter(folder)
    if not folder:
        return
    known = {Path(path or ".").resolve() for path in sys.path}
    for text in _dependencies(Path(folder))[:MAX_FOLDERS]:
        for path in (Path(folder, text), Path(folder, text, "src")):
            if path.is_dir() and path.resolve() not in known:
                known.add(path.resolve())
                sys.path.append(str(path.resolve()))
    importlib.invalidate_caches()


def _dependencies(folder: Path) -> list[str]:
    """Return the dependencies in the configuration; none if it cannot be read."""
    path = folder / CONFIGURATION
    try:
        # If the file holds environment variables, a preflight check hides it from the project's code.
        with findings.environment_files_allowed():
            if path.stat().st_size > MAX_BYTES:
                return []
            found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return []
    named = found.get("dependencies") if isinstance(found, dict) else None
    return (
        [one for one in named if isinstance(one, str) and "\0" not in one] if isinstance(named, list) else []
    )
