"""Decides which tool classes a checkpoint may name."""

from __future__ import annotations

from pathlib import Path

from forkline_runner import project, resolving


def may_import(tool_type: str) -> bool:
    """Return whether a checkpoint may name this class: a tool of the engine, or a class of the project.

    Imports nothing. Modules of the standard library, and modules in a location, are not allowed.
    """
    module, _dot, name = tool_type.rpartition(".")
    top = module.partition(".")[0]
    if not name.isidentifier() or (top == "crewai" and ".tools." not in tool_type):
        return False  # the engine has no tools elsewhere
    try:
        files = resolving.files_of(module)
    except resolving.Unresolved:
        return False
    # The engine would build whatever else the module imports.
    if resolving.class_in_source(module, name) is None:
        return False
    return top in {"crewai", "crewai_tools"} or all(project.is_in_project(Path(file.path)) for file in files)
