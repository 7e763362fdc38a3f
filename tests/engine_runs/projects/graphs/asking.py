"""Graphs that wait for answers while other nodes of the same step have finished."""

from typing import Any, Literal

from graphs import State, node, ran
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field, field_validator


def question(name: str, *prompts: str) -> Any:
    """A node that asks these questions in turn."""

    def ask(state: State) -> State:
        ran(name)
        answers = [str(interrupt(f"{prompt} on {state.get('topic')}?")) for prompt in prompts]
        return {"notes": [f"{name} got {' and '.join(answers)}"]}

    return ask


def beside_graph() -> StateGraph:
    """``done`` beside ``first`` and ``second``, which ask, then ``end``."""
    graph = StateGraph(State)
    graph.add_node("done", node("done"))
    for name in ("first", "second"):
        graph.add_node(name, question(name, name))
    graph.add_node("end", node("end"))
    for name in ("done", "first", "second"):
        graph.add_edge(START, name)
    graph.add_edge(["done", "first", "second"], "end")
    return graph


def single_graph() -> StateGraph:
    """``done`` beside ``first``, which asks twice, then ``end``."""
    graph = StateGraph(State)
    graph.add_node("done", node("done"))
    graph.add_node("first", question("first", "one", "two"))
    graph.add_node("end", node("end"))
    for name in ("done", "first"):
        graph.add_edge(START, name)
    graph.add_edge(["done", "first"], "end")
    return graph


def short_graph() -> StateGraph:
    """``done`` beside ``first``, which asks once, then ``end``."""
    graph = StateGraph(State)
    graph.add_node("done", node("done"))
    graph.add_node("first", question("first", "one"))
    graph.add_node("end", node("end"))
    for name in ("done", "first"):
        graph.add_edge(START, name)
    graph.add_edge(["done", "first"], "end")
    return graph


class Verdict(BaseModel):
    """What a person decides."""

    verdict: Literal["approve", "reject"]
    amount: int = Field(ge=0)

    @field_validator("amount")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def decide(state: State) -> State:
    ran("decide")
    found: Verdict = interrupt({"question": "Decide?"}, response_schema=Verdict)
    return {"notes": [f"{found.verdict} {found.amount}"]}


def code(state: State) -> State:
    ran("code")
    schema = {"type": "string", "pattern": "^[0-9]+$"}
    return {"notes": [repr(interrupt("Code?", response_schema=schema))]}


def typed_graph() -> StateGraph:
    """``decide`` beside ``done``, then ``code``, whose answers have schemas. Since LangGraph 1.2."""
    graph = StateGraph(State)
    for name, run in (("done", node("done")), ("decide", decide), ("code", code)):
        graph.add_node(name, run)
    graph.add_edge(START, "done")
    graph.add_edge(START, "decide")
    graph.add_edge("decide", "code")
    return graph


def sent_graph() -> StateGraph:
    """A ``work`` for each of two topics, of which the second asks, then ``end``."""
    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_node("end", node("end"))
    graph.add_conditional_edges(
        START, lambda state: [Send("work", {"topic": topic}) for topic in "ab"], ["work"]
    )
    graph.add_edge("work", "end")
    return graph


def work(state: State) -> State:
    topic = state["topic"]
    if topic == "b":
        ran("work-b")
        return {"notes": [f"work-b got {interrupt('b?')}"]}
    return node("work-a")(state)


def inside_graph() -> StateGraph:
    """``beside`` another node, the graph of ``single`` as a subgraph; then ``after``."""
    graph = StateGraph(State)
    graph.add_node("beside", node("beside"))
    graph.add_node("inner", single_graph().compile())
    graph.add_node("after", node("after"))
    for name in ("beside", "inner"):
        graph.add_edge(START, name)
    graph.add_edge(["beside", "inner"], "after")
    return graph


beside, single = beside_graph().compile(), single_graph().compile()
short, typed = short_graph().compile(), typed_graph().compile()
sent, inside = sent_graph().compile(), inside_graph().compile()
