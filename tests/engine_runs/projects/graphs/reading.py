"""Graphs whose rows are read: answers, calls of graphs and functions, nested agents, and typed values."""

import dataclasses
import operator
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypedDict

from graphs import State
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Send, interrupt
from pydantic import BaseModel


def twice(state: State) -> State:
    """Ask two questions, one after the other."""
    first, second = interrupt({"question": "Publish?"}), interrupt({"question": "Really?"})
    return {"notes": [f"{first}, {second}"]}


def asking_graph() -> StateGraph:
    """``ask`` asks twice."""
    graph = StateGraph(State)
    graph.add_node("ask", twice)
    graph.add_edge(START, "ask")
    return graph


def part(name: str) -> Any:
    """A graph that adds its name."""
    graph = StateGraph(State)
    graph.add_node("work", lambda state: {"notes": [name]})
    graph.add_edge(START, "work")
    return graph.compile()


INNER, OTHER = part("inner"), part("other")


def call_both(state: State) -> State:
    found = [one.invoke({"topic": state["topic"], "notes": []})["notes"] for one in (INNER, OTHER)]
    return {"notes": [note for notes in found for note in notes]}


def calling_graph() -> StateGraph:
    """``caller`` calls two graphs."""
    graph = StateGraph(State)
    graph.add_node("caller", call_both)
    graph.add_edge(START, "caller")
    return graph


@task
def draft(topic: str) -> str:
    return f"draft on {topic}"


@task
def check(text: str) -> str:
    return f"{text}, checked"


@entrypoint()
def write(topic: str, *, previous: Any = None) -> Any:
    """Draft and check twice, ask, and count the runs."""
    texts = [check(draft(name).result()).result() for name in (topic, "more")]
    answer = interrupt({"question": "Publish?"})
    count = (previous or {"count": 0})["count"] + 1
    return entrypoint.final(value={"texts": texts, "answer": answer}, save={"count": count})


@tool
def ask(text: str) -> str:
    """Ask a person."""
    return str(interrupt({"question": text}))


class AskingModel(BaseChatModel):
    """Calls the tool twice at once, with 5 tokens."""

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        calls = [{"name": "ask", "args": {"text": text}, "id": text} for text in ("one", "two")]
        usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        answer = AIMessage("", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def agents_graph() -> StateGraph:
    """``helper`` is an agent whose tools ask, each in a task of its own."""
    graph = StateGraph(MessagesState)
    graph.add_node("helper", create_react_agent(AskingModel(), [ask], version="v2"))
    graph.add_edge(START, "helper")
    return graph


def spread_graph() -> StateGraph:
    """Two tasks of one node wait at once."""
    graph = StateGraph(State)
    graph.add_node("plan", lambda state: {"notes": ["plan"]})
    graph.add_node("work", lambda state: {"notes": [str(interrupt(state["topic"]))]})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda state: [Send("work", {"topic": one}) for one in "ab"], ["work"]
    )
    return graph


class Item(BaseModel):
    name: str
    day: date


@dataclasses.dataclass
class Point:
    x: int


class Values(TypedDict, total=False):
    topic: str
    moment: datetime
    day: date
    clock: time
    duration: timedelta
    path: Path
    pattern: Any
    key: uuid.UUID
    price: Decimal
    items: list[Item]
    points: Annotated[list[Point], operator.add]


VALUES: Values = {
    "moment": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    "day": date(2024, 1, 2),
    "clock": time(3, 4, 5),
    "duration": timedelta(days=1, seconds=5),
    "path": Path("/srv/data"),
    "pattern": re.compile("x+", re.IGNORECASE),
    "key": uuid.UUID(int=5),
    "price": Decimal("1.50"),
    "items": [Item(name="a", day=date(2024, 1, 2))],
    "points": [Point(1)],
}


def describe(state: Values) -> Values:
    """Put into ``topic`` what the values are, as Python shows them."""
    return {"topic": "; ".join(f"{name}={state.get(name)!r}" for name in VALUES)}


def values_graph() -> StateGraph:
    """``fill`` writes the values, ``describe`` tells what it read."""
    graph = StateGraph(Values)
    graph.add_node("fill", lambda state: VALUES)
    graph.add_node("describe", describe)
    graph.add_edge(START, "fill")
    graph.add_edge("fill", "describe")
    return graph


asking, calling, agents = asking_graph().compile(), calling_graph().compile(), agents_graph().compile()
spread, values = spread_graph().compile(), values_graph().compile()
