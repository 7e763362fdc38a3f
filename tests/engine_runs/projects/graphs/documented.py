"""Small graphs that do what the examples of LangGraph's documentation do.

A graph that a version cannot make is None.
"""

import inspect
import operator
from typing import Annotated, Any, Literal, TypedDict

from agents import FixedModel, create_agent
from graphs import ran
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel

try:
    from langchain.agents.middleware import HumanInTheLoopMiddleware
except ImportError:
    HumanInTheLoopMiddleware = None


class Joke(TypedDict, total=False):
    topic: str
    joke: str


def pick_topic(state: Joke) -> Joke:
    ran("pick_topic")
    return {"topic": "socks"}


def write_joke(state: Joke) -> Joke:
    ran("write_joke")
    return {"joke": f"Why do {state['topic']} vanish?"}


def chain(schema: Any, **nodes: Any) -> StateGraph:
    """The nodes, one after the other."""
    graph = StateGraph(schema)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    return graph


class Form(TypedDict, total=False):
    value: Annotated[list[str], operator.add]


def asking(name: str, question: str) -> Any:
    """A node that asks, and adds the answer to the form."""

    def ask(state: Form) -> Form:
        ran(f"ask_{name}")
        return {"value": [f"{name}: {interrupt(question)}"]}

    return ask


def finish(state: Form) -> Form:
    ran("finish")
    return {"value": ["done"]}


def asking_in_two_steps() -> StateGraph:
    return chain(Form, ask_name=asking("name", "Your name?"), ask_age=asking("age", "Your age?"))


def form_graph() -> StateGraph:
    graph = asking_in_two_steps()
    graph.add_node("finish", finish)
    graph.add_edge("ask_age", "finish")
    return graph


def introduce(state: Form) -> Form:
    """One node that asks three times."""
    ran("introduce")
    return {"value": [str(interrupt(question)) for question in ("Name?", "Age?", "City?")]}


def call_form(state: Form) -> Form:
    """Run a graph that asks, as a function."""
    ran("call_form")
    return {"value": inner_form.invoke({"value": []})["value"]}


class Action(TypedDict, total=False):
    details: str
    status: str


def gate(state: Action) -> Command[Literal["proceed", "cancel"]]:
    ran("gate")
    agreed = interrupt({"question": "Proceed?", "details": state.get("details")})
    return Command(goto="proceed" if agreed else "cancel")


def gate_graph() -> StateGraph:
    """``gate``, which a person answers with true or false, then ``proceed`` or ``cancel``."""

    def ending(name: str, status: str) -> Any:
        def end(state: Action) -> Action:
            ran(name)
            return {"status": status}

        return end

    graph = StateGraph(Action)
    graph.add_node("gate", gate)
    graph.add_node("proceed", ending("proceed", "approved"))
    graph.add_node("cancel", ending("cancel", "rejected"))
    graph.add_edge(START, "gate")
    return graph


class Text(TypedDict, total=False):
    text: str


def review(state: Text) -> Text:
    ran("review")
    return {"text": interrupt({"instruction": "Review and edit this text", "content": state.get("text")})}


class Conversation(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]


@tool
def send_mail(to: str, subject: str) -> str:
    """Send a mail, once a person agrees. The answer may change its subject."""
    ran("send_mail")
    answer = interrupt({"action": "send_mail", "to": to, "subject": subject, "message": "Send this mail?"})
    if answer.get("action") != "approve":
        return "Cancelled."
    return f"Sent to {to}: {answer.get('subject', subject)}"


def write_mail(state: Conversation) -> Conversation:
    """Call the tool, then repeat what it returned."""
    ran("write_mail")
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(str(last.content))]}
    call = {"name": "send_mail", "args": {"to": "ada", "subject": "Lunch"}, "id": "call", "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def use_tool(state: Conversation) -> Conversation:
    ran("use_tool")
    calls = state["messages"][-1].tool_calls
    return {"messages": [ToolMessage(send_mail.invoke(one["args"]), tool_call_id=one["id"]) for one in calls]}


def mail_graph() -> StateGraph:
    graph = StateGraph(Conversation)
    graph.add_node("write_mail", write_mail)
    graph.add_node("use_tool", use_tool)
    graph.add_edge(START, "write_mail")
    graph.add_conditional_edges(
        "write_mail", lambda state: "use_tool" if state["messages"][-1].tool_calls else END
    )
    graph.add_edge("use_tool", "write_mail")
    return graph


class Person(TypedDict, total=False):
    age: int
    question: str


def collect_age(state: Person) -> Person:
    """Ask once; the edge leads here again until the answer is a number."""
    ran("collect_age")
    answer = interrupt(state.get("question") or "Your age?")
    if isinstance(answer, int) and answer > 0:
        return {"age": answer}
    return {"question": f"{answer!r} is no age. Your age?"}


def age_graph() -> StateGraph:
    graph = StateGraph(Person)
    graph.add_node("collect_age", collect_age)
    graph.add_edge(START, "collect_age")
    graph.add_conditional_edges(
        "collect_age", lambda state: END if state.get("age") else "collect_age", ["collect_age", END]
    )
    return graph


class Sums(TypedDict, total=False):
    foo: str
    bar: Annotated[list[str], operator.add]


def adding(name: str) -> Any:
    """A node that replaces ``foo`` and adds to ``bar``."""

    def add(state: Sums) -> Sums:
        ran(name)
        return {"foo": name, "bar": [name]}

    return add


class Decision(BaseModel):
    approved: bool


class Decided(TypedDict, total=False):
    approved: bool


def decide(state: Decided) -> Decided:
    ran("decide")
    return {"approved": interrupt({"question": "Approve?"}, response_schema=Decision).approved}


def schema_graph() -> Any:
    """``decide``, whose interrupt has a schema that answers must fit."""
    if "response_schema" not in inspect.signature(interrupt).parameters:
        return None
    return chain(Decided, decide=decide).compile()


@tool
def weather(town: str) -> str:
    """Look up the weather of a town."""
    ran("weather")
    return f"sunny in {town}"


def reviewed_agent() -> Any:
    """An agent whose tool calls a person reviews."""
    if HumanInTheLoopMiddleware is None:
        return None
    return create_agent(FixedModel(), [weather], middleware=[HumanInTheLoopMiddleware({"weather": True})])


inner_form = asking_in_two_steps().compile()
joke = chain(Joke, pick_topic=pick_topic, write_joke=write_joke).compile()
form = form_graph().compile()
whole = chain(Form, fill_in=asking_in_two_steps().compile(), finish=finish).compile()
stepwise = chain(Form, fill_in=asking_in_two_steps().compile(checkpointer=True), finish=finish).compile()
called = chain(Form, call_form=call_form, finish=finish).compile()
introduction = chain(Form, introduce=introduce).compile()
gated, reviewed = gate_graph().compile(), chain(Text, review=review).compile()
mail, age = mail_graph().compile(), age_graph().compile()
sums = chain(Sums, node_a=adding("a"), node_b=adding("b")).compile()
schema, agent = schema_graph(), reviewed_agent()
