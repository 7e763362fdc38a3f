"""A graph with a stateful subgraph, which keeps the topics of earlier turns (``checkpointer=True``)."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    topic: str
    notes: list[str]


class Memory(State, total=False):
    seen: Annotated[list[str], operator.add]


def add_topic(state: Memory) -> Memory:
    return {"seen": [state["topic"]]}


def list_topics(state: Memory) -> Memory:
    return {"notes": state["seen"]}


def remembering_graph() -> Any:
    inner = StateGraph(Memory)
    inner.add_node("add_topic", add_topic)
    inner.add_node("list_topics", list_topics)
    inner.add_edge(START, "add_topic")
    inner.add_edge("add_topic", "list_topics")
    graph = StateGraph(State)
    graph.add_node("inner", inner.compile(checkpointer=True))
    graph.add_edge(START, "inner")
    return graph


remembering = remembering_graph().compile()
