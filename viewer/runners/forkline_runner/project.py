"""The project's own code: its folder on the import path, and what its entry points name."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from forkline_runner.loaded_code import missing_modules
from forkline_runner.refusal import Refused

# The folder of the runners; a project's modules take precedence over those in it.
RUNNERS = Path(__file__).resolve().parents[1]
ENVIRONMENT = Path(sys.prefix).resolve()


def enter(folder: str) -> None:
    """Change to the project's folder, and put it and its ``src`` first on the import path. Raises Refused."""
    if not folder:
        return
    root = Path(folder)
    try:
        os.chdir(root)
    except OSError as error:
        raise Refused("runner.project_folder_failed", error=error) from error
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != RUNNERS]
    sys.path[:0] = [str(path) for path in (root, root / "src") if path.is_dir()]
    importlib.invalidate_caches()


def is_older(version: str, than: str) -> bool:
    """Return whether a version such as 1.14.0a4 is older than another, by its first three numbers."""
    have, wanted = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, than))
    return have < wanted


def load(entry_point: str) -> Any:
    """Return the object that ``module:name`` names. Raises Refused if there is none."""
    module_name, _colon, name = entry_point.partition(":")
    if not module_name or not name:
        raise Refused("runner.entry_point_malformed", entry_point=entry_point)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _not_found(entry_point, error) from error
    except Exception as error:
        raise Refused(
            "runner.entry_point_import_failed",
            entry_point=entry_point,
            kind=type(error).__name__,
            error=error,
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(
                "runner.entry_point_name_missing",
                entry_point=entry_point,
                module=module_name,
                name=name,
            )
        found = getattr(found, part)
    return found


def _not_found(entry_point: str, error: ModuleNotFoundError) -> Refused:
    """Return the refusal for a missing module, with the folder near the project that has it."""
    folder = missing_modules.folder_with(error.name or "")
    if folder is None:
        return Refused("runner.module_missing", entry_point=entry_point, module=error.name)
    return Refused("runner.module_in_other_folder", entry_point=entry_point, module=error.name, folder=folder)


def is_in_project(path: Path) -> bool:
    """Return whether a file is part of the project's source, and not of an environment."""
    resolved = path.resolve()
    if "site-packages" in resolved.parts or resolved.is_relative_to(ENVIRONMENT):
        return False
    return resolved.is_relative_to(Path.cwd())
