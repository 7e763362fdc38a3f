"""Graphs whose nodes choose what follows, and whose engine tries a node again."""

import inspect
import os
from pathlib import Path
from typing import Any

from graphs import State, node, ran
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy


def choose(state: State) -> Command[Any]:
    ran("choose")
    return Command(update={"decision": "chosen"}, goto="left" if state.get("topic") == "cats" else "right")


def flaky(state: State) -> State:
    """Fails at its first attempt of each run."""
    ran("flaky")
    mark = Path(os.environ["NODES_FILE"]).parent / "tried"
    if not mark.exists():
        mark.touch()
        raise ConnectionError("not yet")
    mark.unlink()
    return {"notes": ["flaky worked"]}


def goto_graph() -> StateGraph:
    """``choose``, which leads to ``left`` or ``right`` without an edge."""
    graph = StateGraph(State)
    graph.add_node("choose", choose)
    graph.add_node("left", node("left"))
    graph.add_node("right", node("right"))
    graph.add_edge(START, "choose")
    return graph


def retried_graph() -> StateGraph:
    """``before``, then ``flaky``, which is tried again."""
    graph = StateGraph(State)
    graph.add_node("before", node("before"))
    newer = "retry_policy" in inspect.signature(graph.add_node).parameters
    policy = RetryPolicy(initial_interval=0.01, max_attempts=3, retry_on=ConnectionError)
    graph.add_node("flaky", flaky, **{"retry_policy" if newer else "retry": policy})
    graph.add_edge(START, "before")
    graph.add_edge("before", "flaky")
    return graph


goto, retried = goto_graph().compile(), retried_graph().compile()
