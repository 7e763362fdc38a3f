"""Return the recorded results of a flow's finished methods instead of running them.

Patches: crewai.flow.flow.Flow._execute_start_method, crewai.flow.flow.Flow._execute_method
Versions: 1.14.2 to 1.15.30 at least
Why: The engine skips every method that is listed as finished. After a router that goes back to one, the flow
    never ends (RecursionError).
Test: quality/compatibility/rows/flows.py::loop
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.flow.flow import Flow

if TYPE_CHECKING:
    from forkline_crewai.run.flow_replay import Replay


def apply(replay: Replay) -> None:
    """Replay when the flow is kicked off. Apply other patches of methods first."""
    engine: Any = Flow
    execute_start, execute = engine._execute_start_method, engine._execute_method

    async def starting(self: Any, *rest: Any, **named: Any) -> Any:
        if self is replay.flow:
            replay.begin()
        return await execute_start(self, *rest, **named)

    async def executing(self: Any, name: Any, *rest: Any, **named: Any) -> Any:
        if self is replay.flow and replay.has_begun:
            if replay.has(name):
                return replay.next_result(name), None
            await replay.finished()
        return await execute(self, name, *rest, **named)

    engine._execute_start_method, engine._execute_method = starting, executing
