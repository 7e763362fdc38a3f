"""The crew, flow or agent that an entry point of the project makes."""

from __future__ import annotations

import inspect
from typing import Any

from forkline_crewai.run import declared
from forkline_runner import project
from forkline_runner.messages import Refused

OTHER = {
    "crew": "crewai.entry_point_not_crew",
    "agent": "crewai.entry_point_not_agent",
    "flow": "crewai.entry_point_not_flow",
}


def made_by(entry_point: str, kind: type, name: str) -> Any:
    """Return the crew, flow or agent that an entry point is, returns, or has as its crew. Raises Refused.

    ``kind`` is its class, and ``name`` one of crew, flow and agent.
    """
    if declared.is_file(entry_point):
        return declared.made(entry_point, name)
    found = project.load(entry_point)
    try:
        if inspect.isclass(found) and not issubclass(found, kind):
            made = found()  # a @CrewBase class
            found = made.crew() if name == "crew" and hasattr(made, "crew") else made
        elif not isinstance(found, kind) and callable(found):
            found = found()
    except Exception as error:
        raise Refused(
            "crewai.entry_point_failed",
            entry_point=entry_point,
            kind=type(error).__name__,
            error=error,
        ) from error
    if not isinstance(found, kind):
        raise Refused(OTHER[name], entry_point=entry_point, found=type(found).__name__)
    return found
