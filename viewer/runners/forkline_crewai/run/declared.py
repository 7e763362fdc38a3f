"""Crews and flows that the project declares in files: ``crew.jsonc`` and ``flow.yaml``.

CrewAI reads them since 1.15. The Python that they name (``custom:`` tools, callbacks, models) is the
project's, and is imported like any entry point.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from forkline_runner.messages import Refused

JSON_SUFFIXES = (".jsonc", ".json")
SUFFIXES = (*JSON_SUFFIXES, ".yaml", ".yml")


def is_file(entry_point: str) -> bool:
    """Return whether the entry point is a file's path, not ``module:name``."""
    return entry_point.endswith(SUFFIXES)


def made(entry_point: str, kind: str) -> Any:
    """Return the crew or flow that the file declares. Raises Refused."""
    path = _path(entry_point)
    if kind == "agent":
        raise Refused(
            "crewai.no_lone_agent_declared",
            entry_point=entry_point,
        )
    try:
        return _crew_and_inputs(path)[0] if kind == "crew" else _flow(path)
    except ImportError as error:
        if not _is_too_old(kind):
            raise _failed(entry_point, error) from error
        raise Refused(
            "crewai.declaration_needs_newer_version",
            version=importlib.metadata.version("crewai"),
            entry_point=entry_point,
        ) from error
    except Exception as error:
        raise _failed(entry_point, error) from error


def default_inputs(entry_point: str) -> dict[str, Any]:
    """Return the default inputs in a crew's file; none for an entry point in Python."""
    if not entry_point.endswith(JSON_SUFFIXES):
        return {}
    try:
        from crewai.project.json_loader import load_jsonc_file

        inputs = load_jsonc_file(_path(entry_point)).get("inputs")
    except Exception:
        # An old engine, or a broken file: loading the crew reports which.
        return {}
    return dict(inputs) if isinstance(inputs, dict) else {}


def _path(entry_point: str) -> Path:
    """Return the file's path. Raises Refused if it is not in the project's folder."""
    folder = Path.cwd().resolve()
    path = (folder / entry_point).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise Refused("crewai.entry_point_file_missing", entry_point=entry_point)
    return path


def _crew_and_inputs(path: Path) -> tuple[Any, dict[str, Any]]:
    from crewai.project import load_crew

    loaded: tuple[Any, dict[str, Any]] = load_crew(path)
    return loaded


def _flow(path: Path) -> Any:
    from crewai.flow.flow import Flow

    if not hasattr(Flow, "from_declaration"):
        raise ImportError("Flow.from_declaration")
    return Flow.from_declaration(path=path)


def _is_too_old(kind: str) -> bool:
    """Return whether this version of the engine cannot read the file at all.

    Otherwise the import error comes from the project.
    """
    import crewai.project
    from crewai.flow.flow import Flow

    has = hasattr(crewai.project, "load_crew") if kind == "crew" else hasattr(Flow, "from_declaration")
    return not has


def _failed(entry_point: str, error: Exception) -> Refused:
    return Refused(
        "crewai.entry_point_failed",
        entry_point=entry_point,
        kind=type(error).__name__,
        error=error,
    )
