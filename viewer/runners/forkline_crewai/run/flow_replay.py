"""Replays the finished methods of a flow with their recorded results, each as often as it had run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from crewai.flow.flow import Flow

# Turns of the event loop without a replayed method after which the replay is over.
IDLE_TURNS = 50


class Replay:
    """The recorded results that are still to be handed on, by method and in the order of the run."""

    def __init__(self, flow: Any, results: Mapping[str, Sequence[Any]]) -> None:
        self.flow = flow
        self.left = {name: deque(values) for name, values in results.items()}
        self.has_begun = self.is_over = False
        self.taken = 0

    def begin(self) -> None:
        """Have the engine walk the flow as if nothing had run; what has finished returns at once.

        CrewAI's own way skips a method for as long as it is among the finished ones: behind a router that
        goes back it never ends (``RecursionError``, all versions from 1.14.2 to 1.15.30).
        """
        if self.has_begun:
            return
        self.has_begun = True
        for name in self.flow._completed_methods:
            # Finished, but no result is recorded.
            self.left.setdefault(str(name), deque([None]))
        self.flow._completed_methods.clear()
        self.flow._is_execution_resuming = False

    def has(self, method: Any) -> bool:
        """Whether the method had run once more than was replayed so far."""
        return bool(self.left.get(str(method)))

    def take(self, method: Any) -> Any:
        """The next recorded result of the method."""
        self.taken += 1
        self.flow._completed_methods.add(method)
        return self.left[str(method)].popleft()

    async def finished(self) -> None:
        """Wait until everything that had finished is replayed: no method runs before.

        So a checkpoint that a method writes has all of them; and a method that had lost a race is
        cancelled before it is paid for.
        """
        idle, seen = 0, self.taken
        while not self.is_over and idle < IDLE_TURNS:
            await asyncio.sleep(0)
            idle, seen = (idle + 1, seen) if seen == self.taken else (0, self.taken)
        if not self.is_over:
            self.is_over = True
            names = {str(name): name for name in self.flow._methods}
            # Not reached, as the code has changed since: it stays finished.
            self.flow._completed_methods |= {
                names[name] for name, left in self.left.items() if left and name in names
            }


def install(flow: Any, results: Mapping[str, Sequence[Any]]) -> None:
    """Replay these results when the flow is kicked off. Whatever else stands in for methods comes before."""
    engine: Any = Flow
    execute_start, execute = engine._execute_start_method, engine._execute_method
    replay = Replay(flow, results)

    async def starting(self: Any, *rest: Any, **named: Any) -> Any:
        if self is flow:
            replay.begin()
        return await execute_start(self, *rest, **named)

    async def executing(self: Any, name: Any, *rest: Any, **named: Any) -> Any:
        if self is flow and replay.has_begun:
            if replay.has(name):
                return replay.take(name), None
            await replay.finished()
        return await execute(self, name, *rest, **named)

    engine._execute_start_method, engine._execute_method = starting, executing
