"""Graphs with features that not every version has. One that a version lacks is None."""

import inspect
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from graphs import State, node
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

try:
    from langgraph.cache.sqlite import SqliteCache
    from langgraph.types import CachePolicy
except ImportError:
    SqliteCache = None
try:
    from langgraph.channels.delta import DeltaChannel
except ImportError:
    DeltaChannel = None


def by_topic(state: State) -> str:
    return str(state.get("topic"))


def cached_graph() -> Any:
    """``before``, then ``slow``, whose result is cached by the topic, then ``last``."""
    graph = StateGraph(State)
    if SqliteCache is None or "cache_policy" not in inspect.signature(graph.add_node).parameters:
        return None
    graph.add_node("before", node("before"))
    graph.add_node("slow", node("slow"), cache_policy=CachePolicy(key_func=by_topic))
    graph.add_node("last", node("last"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "slow")
    graph.add_edge("slow", "last")
    path = Path(os.environ["NODES_FILE"]).parent / "cache.sqlite"
    return graph.compile(cache=SqliteCache(path=str(path)))


def untyped(name: str) -> Any:
    """A node whose parameter does not name another state's class."""
    run = node(name)
    return lambda state: run(state)


def joined(value: list[str] | None, writes: Sequence[list[str]]) -> list[str]:
    return [*(value or []), *(one for write in writes for one in write)]


def delta_graph() -> Any:
    """``start``, ``middle`` and ``end``; a checkpoint has the notes only as changes."""
    if DeltaChannel is None:
        return None

    class Changes(TypedDict, total=False):
        topic: str
        notes: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]

    graph = StateGraph(Changes)
    for name in ("start", "middle", "end"):
        graph.add_node(name, untyped(name))
    graph.add_edge(START, "start")
    graph.add_edge("start", "middle")
    graph.add_edge("middle", "end")
    return graph.compile()


def asking_delta_graph() -> Any:
    """``done`` beside ``first``, which asks, then ``end``; checkpoints have the notes only as changes."""
    if DeltaChannel is None:
        return None

    class Changes(TypedDict, total=False):
        topic: str
        notes: Annotated[list[str], DeltaChannel(joined)]

    graph = StateGraph(Changes)
    for name in ("done", "end"):
        graph.add_node(name, untyped(name))
    graph.add_node("first", lambda state: {"notes": [f"first got {interrupt('one?')}"]})
    for name in ("done", "first"):
        graph.add_edge(START, name)
        graph.add_edge(name, "end")
    return graph.compile()


class Numbers(TypedDict, total=False):
    topic: str
    number: complex
    notes: Annotated[list[str], operator.add]


def pickled_graph() -> Any:
    """``first``, whose number only a pickle can store, then ``last``."""

    def first(state: Any) -> Any:
        return {**node("first")(state), "number": complex(1, 2)}

    graph = StateGraph(Numbers)
    graph.add_node("first", first)
    graph.add_node("last", untyped("last"))
    graph.add_edge(START, "first")
    graph.add_edge("first", "last")
    return graph.compile()


cached, delta, pickled = cached_graph(), delta_graph(), pickled_graph()
asking_delta = asking_delta_graph()
