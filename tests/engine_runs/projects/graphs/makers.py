"""Entry points that make a graph, as LangGraph's server accepts them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from graphs import State, fan_graph, node, ran
from langgraph.graph import START, StateGraph
from shared_words import GREETING


def sync_made() -> Any:
    return fan_graph().compile()


def with_config(config: dict[str, Any]) -> Any:
    return fan_graph().compile(name=config["configurable"]["thread_id"])


def with_options(**options: Any) -> Any:
    return fan_graph().compile(**options)


async def async_made() -> Any:
    await asyncio.sleep(0)
    return fan_graph()


@contextlib.contextmanager
def opened() -> Iterator[Any]:
    ran("opened")
    yield fan_graph().compile()
    ran("closed")


@contextlib.asynccontextmanager
async def async_opened(config: dict[str, Any]) -> AsyncIterator[Any]:
    """The graph needs what is open, and the loop in which it was opened."""
    lock = asyncio.Lock()
    loop = asyncio.get_running_loop()

    async def use(state: State) -> State:
        async with lock:
            ran("use")
        assert asyncio.get_running_loop() is loop
        return {"notes": [f"{GREETING} {os.environ['TOPIC_PREFIX']}{state.get('topic')}"]}

    graph = StateGraph(State)
    graph.add_node("use", use)
    graph.add_node("last", node("last"))
    graph.add_edge(START, "use")
    graph.add_edge("use", "last")
    # As clients that belong to the task that opened them.
    task = asyncio.current_task()
    try:
        yield graph.compile()
    finally:
        assert asyncio.current_task() is task
        ran("closed")
