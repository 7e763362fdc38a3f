"""The event loop of a run. What an async entry point opens can only be used in the same loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

# Seconds that cancelled tasks have to clean up.
CLEAN_UP_SECONDS = 2

_loops: list[asyncio.AbstractEventLoop] = []


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the loop to its end. Return its result."""
    return _loop().run_until_complete(coroutine)


@contextlib.contextmanager
def opened(manager: Any) -> Iterator[Any]:
    """Enter an async context manager for the block. Yield its value.

    The same task enters and exits it, as some context managers require.
    """
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
        # The context manager failed before it yielded: raise its error.
        holder.result()
    try:
        yield entered.result()
    finally:
        leaving.set_result(None)
        loop.run_until_complete(asyncio.wait([holder], timeout=CLEAN_UP_SECONDS))
        if holder.done() and not holder.cancelled() and (error := holder.exception()):
            raise error


def is_used() -> bool:
    """Return whether anything has run in the loop."""
    return bool(_loops)


def close() -> None:
    """Cancel the remaining tasks and close the loop. Does nothing if no loop was used."""
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
