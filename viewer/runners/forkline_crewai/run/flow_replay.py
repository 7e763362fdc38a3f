"""The recorded results of a flow's finished methods, replayed as often as each method had run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

# The replay ends after this many iterations of the event loop without a replayed method.
MAX_IDLE_ITERATIONS = 50


class Replay:
    """The recorded results that are not replayed yet, by method and in the order of the run."""

    def __init__(self, flow: Any, results: Mapping[str, Sequence[Any]]) -> None:
        self.flow = flow
        self.left = {name: deque(values) for name, values in results.items()}
        self.has_begun = self.is_over = False
        self.count = 0

    def begin(self) -> None:
        """Make the engine start the flow as if nothing had run; finished methods return at once."""
        if self.has_begun:
            return
        self.has_begun = True
        for name in self.flow._completed_methods:
            # Finished, but its result is not recorded.
            self.left.setdefault(str(name), deque([None]))
        self.flow._completed_methods.clear()
        self.flow._is_execution_resuming = False

    def has(self, method: Any) -> bool:
        """Return whether a result of the method is left to replay."""
        return bool(self.left.get(str(method)))

    def next_result(self, method: Any) -> Any:
        """Return the next recorded result of the method."""
        self.count += 1
        self.flow._completed_methods.add(method)
        return self.left[str(method)].popleft()

    async def finished(self) -> None:
        """Wait until every finished method is replayed; no other method runs before.

        A checkpoint that a method writes then contains all of them, and a method that had lost a race is
        cancelled before it is paid for.
        """
        idle, seen = 0, self.count
        while not self.is_over and idle < MAX_IDLE_ITERATIONS:
            await asyncio.sleep(0)
            idle, seen = (idle + 1, seen) if seen == self.count else (0, self.count)
        if not self.is_over:
            self.is_over = True
            names = {str(name): name for name in self.flow._methods}
            # Methods that were not reached, because the code has changed, stay finished.
            self.flow._completed_methods |= {
                names[name] for name, left in self.left.items() if left and name in names
            }
