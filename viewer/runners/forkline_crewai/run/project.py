"""The user's own code: put on the path, and asked for the crew, flow or agent that it defines."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

from forkline_crewai.run import declared
from forkline_runner import missing_modules, resolving
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused

# Where our own parts were found; a project's modules come before them.
PARTS = Path(__file__).resolve().parents[2]
OTHER = {
    "crew": _("The entry point %(entry_point)s gives no crew, but a %(found)s."),
    "agent": _("The entry point %(entry_point)s gives no agent, but a %(found)s."),
    "flow": _("The entry point %(entry_point)s gives no flow, but a %(found)s."),
}


def enter(folder: str) -> None:
    """Work in the project's folder, with it and its ``src`` first on the path. Raises Refused."""
    if not folder:
        return
    root = Path(folder)
    try:
        os.chdir(root)
    except OSError as error:
        raise Refused(_("The project's folder cannot be entered: %(error)s"), error=error) from error
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != PARTS]
    sys.path[:0] = [str(path) for path in (root, root / "src") if path.is_dir()]
    importlib.invalidate_caches()


def may_import(tool_type: str) -> bool:
    """Whether a checkpoint may name this class: one of the engine's own tools, or of the project's code.

    Imports nothing. No module of Python itself may be named, and none that lies in a location.
    """
    module, _dot, name = tool_type.rpartition(".")
    top = module.partition(".")[0]
    if not name.isidentifier() or (top == "crewai" and ".tools." not in tool_type):
        return False  # nothing else of the engine is a tool
    try:
        files = resolving.files_of(module)
    except resolving.Unresolved:
        return False
    return top in {"crewai", "crewai_tools"} or all(is_in_project(Path(file.path)) for file in files)


def is_older(version: str, than: str) -> bool:
    """Whether a version such as 1.14.0a4 comes before another, by its numbers."""
    have, wanted = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, than))
    return have < wanted


def load(entry_point: str) -> Any:
    """What ``module:name`` names. Raises Refused where it is not there."""
    module_name, _colon, name = entry_point.partition(":")
    if not module_name or not name:
        raise Refused(_("The entry point %(entry_point)r must read module:name."), entry_point=entry_point)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _not_found(entry_point, error) from error
    except Exception as error:
        raise Refused(
            _("The entry point %(entry_point)s cannot be imported: %(kind)s: %(error)s"),
            entry_point=entry_point,
            kind=type(error).__name__,
            error=error,
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(
                _("The entry point %(entry_point)s is not there: %(module)s has no %(name)s."),
                entry_point=entry_point,
                module=module_name,
                name=name,
            )
        found = getattr(found, part)
    return found


def _not_found(entry_point: str, error: ModuleNotFoundError) -> Refused:
    """What to say if a module is missing, with the folder that has it."""
    folder = missing_modules.folder_with(error.name or "")
    if folder is None:
        message = _(
            "The entry point %(entry_point)s cannot be imported: there is no module %(module)s in the project"
            " or its environment."
        )
        return Refused(message, entry_point=entry_point, module=error.name)
    message = _(
        "The entry point %(entry_point)s cannot be imported: there is no module %(module)s, but"
        " %(folder)s has one. Choose that folder as the project's, and name the entry point as it is"
        " imported from there."
    )
    return Refused(message, entry_point=entry_point, module=error.name, folder=folder)


def made_by(entry_point: str, kind: type, name: str) -> Any:
    """The ``kind``, named crew, flow or agent, that an entry point is, makes, or has as a crew.

    Raises Refused.
    """
    if declared.is_file(entry_point):
        return declared.made(entry_point, name)
    found = load(entry_point)
    try:
        if inspect.isclass(found) and not issubclass(found, kind):
            made = found()  # a @CrewBase class
            found = made.crew() if name == "crew" and hasattr(made, "crew") else made
        elif not isinstance(found, kind) and callable(found):
            found = found()
    except Exception as error:
        raise Refused(
            _("The entry point %(entry_point)s fails: %(kind)s: %(error)s"),
            entry_point=entry_point,
            kind=type(error).__name__,
            error=error,
        ) from error
    if not isinstance(found, kind):
        raise Refused(OTHER[name], entry_point=entry_point, found=type(found).__name__)
    return found


def is_in_project(place: Path) -> bool:
    """Whether a file is of the project's own source, and of no environment."""
    resolved = place.resolve()
    if "site-packages" in resolved.parts or resolved.is_relative_to(Path(sys.prefix).resolve()):
        return False
    return resolved.is_relative_to(Path.cwd().resolve())
