"""Small graphs. Each node that runs adds its name to the file that NODES_FILE names."""

import inspect
import operator
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt
from models import asked, note


@dataclass
class Ticket:
    """A class of the project, as checkpoints name it."""

    number: int
    title: str


class State(TypedDict, total=False):
    topic: str
    ticket: Ticket
    notes: Annotated[list[str], operator.add]
    decision: str


def ran(name: str) -> None:
    with open(os.environ["NODES_FILE"], "a") as file:
        file.write(f"{name}\n")


def node(name: str) -> Any:
    """A node that notes its name and the topic."""

    def run(state: State) -> State:
        ran(name)
        asked(name, state)
        if (Path(os.environ["NODES_FILE"]).parent / f"fail-{name}").exists():
            raise ValueError(f"{name} fails")
        return {"notes": [f"{name} on {state.get('topic')}"]}

    return run


def fan_graph() -> StateGraph:
    """``left`` and ``right`` side by side, then ``end``."""
    graph = StateGraph(State)
    for name in ("start", "left", "right", "end"):
        graph.add_node(name, node(name))
    graph.add_edge(START, "start")
    graph.add_edge("start", "left")
    graph.add_edge("start", "right")
    graph.add_edge(["left", "right"], "end")
    graph.add_edge("end", END)
    return graph


def approve(state: State) -> State:
    ran("approve")
    return {"decision": interrupt({"question": f"Publish {state.get('topic')}?", "options": ["yes", "no"]})}


def chosen(state: State) -> str:
    return "publish" if state["decision"] == "yes" else "drop"


def approval_graph() -> StateGraph:
    """``draft``, then a person's approval, then ``publish`` or ``drop``."""
    graph = StateGraph(State)
    for name in ("draft", "publish", "drop"):
        graph.add_node(name, node(name))
    graph.add_node("approve", approve)
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "approve")
    graph.add_conditional_edges("approve", chosen, ["publish", "drop"])
    return graph


def nested_graph() -> StateGraph:
    """``before``, then the approval graph as a subgraph, then ``after``."""
    graph = StateGraph(State)
    graph.add_node("before", node("before"))
    graph.add_node("inner", approval_graph().compile())
    graph.add_node("after", node("after"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "inner")
    graph.add_edge("inner", "after")
    return graph


def spread_graph() -> StateGraph:
    """A ``work`` for each of two topics, side by side, then ``end``."""
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
    return node(f"work-{topic}")(state)


def several_graph() -> StateGraph:
    """Two nodes that ask side by side, then ``end``."""
    graph = StateGraph(State)
    for name in ("first", "second"):
        graph.add_node(name, asking(name))
        graph.add_edge(START, name)
    graph.add_node("end", node("end"))
    graph.add_edge(["first", "second"], "end")
    return graph


def asking(name: str) -> Any:
    def ask(state: State) -> State:
        ran(name)
        return {"notes": [f"{name} got {interrupt(name)}"]}

    return ask


async def wait(state: State) -> State:
    ran("wait")
    asked("wait", state)
    return {"notes": [f"wait on {state.get('topic')}"]}


def awaited_graph() -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("wait", wait)
    graph.add_node("last", node("last"))
    graph.add_edge(START, "wait")
    graph.add_edge("wait", "last")
    return graph


class Setting(TypedDict, total=False):
    """What a run of the configured graph is configured with."""

    tone: str
    tries: int


def configured_graph() -> StateGraph:
    """``say`` notes its configurable tone and, in versions with a context, what the context has."""
    has_context = "context_schema" in inspect.signature(StateGraph.__init__).parameters
    graph = StateGraph(State, **({"context_schema": Setting} if has_context else {"config_schema": Setting}))
    graph.add_node("say", say_with_context if has_context else say)
    graph.add_node("last", node("last"))
    graph.add_edge(START, "say")
    graph.add_edge("say", "last")
    return graph


def say(state: State, config: RunnableConfig) -> State:
    ran("say")
    return {"notes": [f"configurable {config['configurable'].get('tone')}"]}


def say_with_context(state: State, config: RunnableConfig, runtime: Any) -> State:
    context = (runtime.context or {}).get("tone")
    return {"notes": [*say(state, config)["notes"], f"context {context}"]}


class Chat(TypedDict, total=False):
    topic: str
    ticket: Ticket
    messages: Annotated[list[Any], add_messages]


def hear(state: Chat) -> Chat:
    ran("hear")
    call = {"name": "find", "args": {"about": state.get("topic")}, "id": "call", "type": "tool_call"}
    return {
        "messages": [
            HumanMessage(f"About {state.get('topic')}?", id="asked"),
            AIMessage("", tool_calls=[call], id="calling"),
            ToolMessage("Nothing found.", tool_call_id="call", id="found"),
        ]
    }


def reply(state: Chat) -> Chat:
    """Answer with what a model would be sent."""
    ran("reply")
    note(state["messages"])
    return {"messages": [AIMessage(" | ".join(str(one.content) for one in state["messages"]), id="reply")]}


def chat_graph() -> StateGraph:
    """``hear`` begins a conversation, ``reply`` repeats all of it."""
    graph = StateGraph(Chat)
    graph.add_node("hear", hear)
    graph.add_node("reply", reply)
    graph.add_edge(START, "hear")
    graph.add_edge("hear", "reply")
    return graph


builder = fan_graph()
fan, approval = fan_graph().compile(), approval_graph().compile()
spread, several = spread_graph().compile(), several_graph().compile()
nested, awaited = nested_graph().compile(), awaited_graph().compile()
configured, chat = configured_graph().compile(), chat_graph().compile()


async def make_graph(config: dict[str, Any]) -> Any:
    return fan_graph().compile(name=config["configurable"]["thread_id"])
