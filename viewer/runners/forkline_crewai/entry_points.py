"""The crews, flows and agents that the project's entry points make, or its files declare.

CrewAI reads ``crew.jsonc`` and ``flow.yaml`` since 1.15. The Python that they name (``custom:`` tools,
callbacks, models) is the project's, and is imported like any entry point.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from pathlib import Path
from typing import Any

from forkline_runner import project
from forkline_runner.reporting import Refused

JSON_SUFFIXES = (".jsonc", ".json")
SUFFIXES = (*JSON_SUFFIXES, ".yaml", ".yml")
OTHER = {
    "crew": "crewai.entry_point_not_crew",
    "agent": "crewai.entry_point_not_agent",
    "flow": "crewai.entry_point_not_flow",
}


def made_by(entry_point: str, kind: type, name: str) -> Any:
    """Return the crew, flow or agent that an entry point is, returns, or has as its crew. Raises Refused.

    ``kind`` is its class, and ``name`` one of crew, flow and agent.
    """
    # A file's path, not ``module:name``.
    if entry_point.endswith(SUFFIXES):
        return _declared(entry_point, name)
    found = project.load(entry_point)
    try:
        if inspect.isclass(found) and not issubclass(found, kind):
            made = found()  # a @CrewBase class
            found = made.crew() if name == "crew" and hasattr(made, "crew") else made
        elif not isinstance(found, kind) and callable(found):
            found = found()
    except Exception as error:
        raise _failed(entry_point, error) from error
    if not isinstance(found, kind):
        raise Refused(OTHER[name], entry_point=entry_point, found=type(found).__name__)
    return found


def _declared(entry_point: str, kind: str) -> Any:
    """Return the crew or flow that the file declares. Raises Refused."""
    path = _path(entry_point)
    if kind == "agent":
        raise Refused("crewai.no_lone_agent_declared", entry_point=entry_point)
    try:
        return _crew(path) if kind == "crew" else _flow(path)
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


def _path(entry_point: str) -> Path:
    """Return the file's path. Raises Refused if it is not in the project's folder."""
    folder = Path.cwd().resolve()
    path = (folder / entry_point).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise Refused("crewai.entry_point_file_missing", entry_point=entry_point)
    return path


def _crew(path: Path) -> Any:
    from crewai.project import load_crew

    crew, _inputs = load_crew(path)
    return crew


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

    return not (hasattr(crewai.project, "load_crew") if kind == "crew" else hasattr(Flow, "from_declaration"))


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


def _failed(entry_point: str, error: Exception) -> Refused:
    return Refused(
        "crewai.entry_point_failed",
        entry_point=entry_point,
        kind=type(error).__name__,
        error=error,
    )
