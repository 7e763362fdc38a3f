"""The one event loop of a run. What an async entry point opens belongs to the loop that it was opened in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

# Seconds for tasks that were interrupted to clean up.
CLEAN_UP_SECONDS = 2

_loops: list[asyncio.AbstractEventLoop] = []


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, run in the loop to its end."""
    return _loop().run_until_complete(coroutine)


@contextlib.contextmanager
def opened(manager: Any) -> Iterator[Any]:
    """What an async context manager yields, for the block. One task enters and leaves it, as some require."""
    loop = _loop()
    entered: asyncio.Future[Any] = loop.create_future()
    leaving: asyncio.Future[None] = loop.create_future()

    async def hold() -> None:
        async with manager as value:
            entered.set_result(value)
            await leaving

    holder = loop.create_task(hold())
    loop.run_until_complete(asyncio.wait([holder, entered], return_when=asyncio.FIRST_COMPLETED))
    if holder.done():
        # It failed before it yielded.
        holder.result()
    try:
        yield entered.result()
    finally:
        leaving.set_result(None)
        loop.run_until_complete(asyncio.wait([holder], timeout=CLEAN_UP_SECONDS))
        if holder.done() and not holder.cancelled() and (error := holder.exception()):
            raise error


def is_used() -> bool:
    """Whether something has been run in the loop."""
    return bool(_loops)


def close() -> None:
    """End what is left in the loop. Does nothing if there was none."""
    while _loops:
        loop = _loops.pop()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLEAN_UP_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _loop() -> asyncio.AbstractEventLoop:
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0]
