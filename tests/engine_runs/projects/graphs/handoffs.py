"""Agents of the engine that hand over to each other with a tool, as a swarm or a supervisor does."""

import operator
from typing import Annotated, Any, TypedDict

from agents import create_agent
from graphs import ran
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from models import note


class State(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], add_messages]


class HandingModel(BaseChatModel):
    """Hands over to the other agent."""

    @property
    def _llm_type(self) -> str:
        return "handing"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        ran("model")
        note(messages)
        call = {"name": "to_bob", "args": {}, "id": "call"}
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage("", tool_calls=[call], id="calling"))]
        )


@tool
def to_bob() -> Command[Any]:
    """Hand over to Bob."""
    handed = ToolMessage("Handed over.", tool_call_id="call", name="to_bob", id="handed")
    return Command(goto="bob", graph=Command.PARENT, update={"messages": [handed], "notes": ["to bob"]})


def bob(state: State) -> State:
    ran("bob")
    note(state["messages"])
    answer = f"{state.get('topic')} after {len(state['messages'])} messages"
    return {"messages": [AIMessage(answer, id="answer")]}


def agents_graph() -> StateGraph:
    """``alice`` hands over to ``bob``."""
    graph = StateGraph(State)
    graph.add_node("alice", create_agent(HandingModel(), [to_bob]))
    graph.add_node("bob", bob)
    graph.add_edge(START, "alice")
    return graph


agents = agents_graph().compile()
