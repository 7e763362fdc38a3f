"""Reads a project's ``langgraph.json`` as text. Nothing is imported or loaded."""

import json
from pathlib import Path
from typing import Any

CONFIGURATION = "langgraph.json"
MAX_BYTES = 512 * 1024
MAX_FOLDERS = 50


def read_text(path: Path) -> str:
    """The text of a file of the project; empty if the file is missing, unreadable or too long."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def configuration(folder: Path) -> dict[str, Any]:
    """The object in the project's configuration file; empty if the file is missing or invalid."""
    try:
        found = json.loads(read_text(folder / CONFIGURATION))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def environment_file(folder: Path) -> Path | None:
    """The file with the environment variables; None if the configuration names none.

    This is the configuration file if it contains the variables itself.
    """
    named = configuration(folder).get("env")
    if isinstance(named, dict) and named:
        return folder / CONFIGURATION
    if isinstance(named, str) and named and "\0" not in named:
        return folder / named
    return None


def source_folders(folder: Path) -> tuple[Path, ...]:
    """The folders among the dependencies. The import path has them after the project's own folders.

    Other dependencies are packages, which are installed in the project's environment.
    """
    named = configuration(folder).get("dependencies")
    texts = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    found: dict[Path, None] = {}
    for text in texts[:MAX_FOLDERS]:
        path = Path(folder, text) if text and "\0" not in text else folder
        for one in (path, path / "src"):
            if _is_folder(one) and one.resolve() not in (folder.resolve(), (folder / "src").resolve()):
                found[one.resolve()] = None
    return tuple(found)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
