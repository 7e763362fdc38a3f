"""Call back before a crew inside a flow is kicked off.

Patches: crewai.Crew.kickoff, crewai.Crew.akickoff
Versions: 1.14.2 and newer
Why: The engine runs the interrupted method of a flow from its beginning, so its crew would be paid for again.
Test: quality/compatibility/rows/flow_results.py::middle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewai import Crew


def apply(before: Callable[[Any, Any], None]) -> None:
    """Call ``before`` with each crew and its inputs."""
    kickoff, kickoff_natively = Crew.kickoff, Crew.akickoff

    def kicked_off(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        before(self, inputs)
        return kickoff(self, inputs, *rest, **named)

    async def kicked_off_natively(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        before(self, inputs)
        return await kickoff_natively(self, inputs, *rest, **named)

    Crew.kickoff, Crew.akickoff = kicked_off, kicked_off_natively
