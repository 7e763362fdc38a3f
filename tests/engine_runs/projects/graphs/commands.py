"""Graphs whose nodes choose what follows with ``Command``, as supervisors and their agents do."""

import operator
from typing import Annotated, Any, TypedDict

from graphs import node, ran
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from models import asked


class State(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]
    turns: int
    decision: str


def going(name: str, goto: Any, **update: Any) -> Any:
    """A node that notes its name, and then goes where ``goto`` says."""

    def run(state: State) -> Command[Any]:
        ran(name)
        asked(name, state)
        found = goto(state) if callable(goto) else goto
        return Command(update={"notes": [f"{name} on {state.get('topic')}"], **update}, goto=found)

    return run


def graph_of(first: str, **nodes: Any) -> StateGraph:
    """A graph of these nodes, with an edge to the first one only."""
    graph = StateGraph(State)
    for name, run in nodes.items():
        graph.add_node(name, run)
    graph.add_edge(START, first)
    return graph


def supervise(state: State) -> Command[Any]:
    """Send two researchers in turn, then end."""
    ran("supervisor")
    asked("supervisor", state)
    turns = state.get("turns", 0)
    update = {"turns": turns + 1, "notes": [f"supervisor {turns}"]}
    return Command(update=update, goto=("researcher", "writer", END)[min(turns, 2)])


def supervisor_graph() -> StateGraph:
    """``supervisor``, ``researcher``, ``supervisor``, ``writer``, ``supervisor``."""
    back = {name: going(name, "supervisor") for name in ("researcher", "writer")}
    return graph_of("supervisor", supervisor=supervise, **back)


def both_graph() -> StateGraph:
    """``plan`` goes to two nodes, each of which goes to ``end``."""
    both = {name: going(name, "end") for name in ("left", "right")}
    return graph_of("plan", plan=going("plan", ["left", "right"]), end=node("end"), **both)


def sending_graph() -> StateGraph:
    """``plan`` goes to ``beside`` and sends two topics to ``work``."""
    sends = [Send("work", {"topic": "a"}), Send("work", {"topic": "b"}), "beside"]
    return graph_of("plan", plan=going("plan", sends), work=work, beside=node("beside"))


def work(state: State) -> State:
    return node(f"work-{state['topic']}")(state)


def parent_graph() -> StateGraph:
    """``team`` is a subgraph whose node goes to ``after`` of this graph."""
    inner = graph_of("inside", inside=leave).compile()
    return graph_of("team", team=inner, after=node("after"), other=node("other"))


def leave(state: State) -> Command[Any]:
    ran("inside")
    return Command(update={"decision": "left"}, goto="after", graph=Command.PARENT)


def mixed_graph() -> StateGraph:
    """``both`` goes to ``chosen``, and has an edge to ``fixed``."""
    graph = graph_of("both", both=going("both", "chosen"), chosen=node("chosen"), fixed=node("fixed"))
    graph.add_edge("both", "fixed")
    return graph


def conditional_graph() -> StateGraph:
    """``both`` goes to ``chosen``, and a condition leads to ``yes`` or ``no``."""
    nodes = {name: node(name) for name in ("chosen", "yes", "no")}
    graph = graph_of("both", both=going("both", "chosen"), **nodes)
    graph.add_conditional_edges("both", decided, ["yes", "no"])
    return graph


def decided(state: State) -> str:
    return "yes" if state.get("topic") == "cats" else "no"


def joined_graph() -> StateGraph:
    """``plan`` goes to ``left`` and ``long``, ``long`` to ``later``; ``end`` waits for the other two."""
    nodes = {name: node(name) for name in ("left", "later", "end")}
    graph = graph_of("plan", plan=going("plan", ["left", "long"]), long=going("long", "later"), **nodes)
    graph.add_edge(["left", "later"], "end")
    return graph


def parallel_graph() -> StateGraph:
    """``left`` and ``right`` have an edge each, and one together. ``right`` also goes to ``chosen``."""
    nodes = {name: node(name) for name in ("left", "after_left", "after_right", "chosen", "end")}
    nodes |= {"plan": going("plan", ["left", "right"]), "right": going("right", "chosen")}
    graph = graph_of("plan", **nodes)
    graph.add_edge("left", "after_left")
    graph.add_edge("right", "after_right")
    graph.add_edge(["left", "right"], "end")
    return graph


def decided_graph() -> StateGraph:
    """As ``parallel``, and a condition of ``right`` leads to ``yes`` or ``no``."""
    graph = parallel_graph()
    for name in ("yes", "no"):
        graph.add_node(name, node(name))
    graph.add_conditional_edges("right", decided, ["yes", "no"])
    return graph


def split_graph() -> StateGraph:
    """``left`` and ``right`` run in parallel, and a condition of each leads to ``yes`` or ``no``."""
    nodes = {name: node(name) for name in ("left", "right", "yes", "no")}
    graph = graph_of("plan", plan=going("plan", ["left", "right"]), **nodes)
    for name in ("left", "right"):
        graph.add_conditional_edges(name, decided, ["yes", "no"])
    return graph


def twins_graph() -> StateGraph:
    """``left`` and ``right`` run in parallel, and nothing follows."""
    nodes = {name: node(name) for name in ("left", "right")}
    return graph_of("plan", plan=going("plan", ["left", "right"]), **nodes)


def deep_graph() -> StateGraph:
    """``before``, then the supervisor's graph with a question in ``writer`` as a subgraph, then ``after``."""
    inner = graph_of(
        "supervisor", supervisor=supervise, researcher=going("researcher", "supervisor"), writer=ask
    )
    graph = graph_of("before", before=node("before"), inner=inner.compile(), after=node("after"))
    graph.add_edge("before", "inner")
    graph.add_edge("inner", "after")
    return graph


def ask(state: State) -> Command[Any]:
    ran("writer")
    return Command(update={"decision": interrupt(f"Write on {state.get('topic')}?")}, goto="supervisor")


def ending_graph() -> StateGraph:
    """A condition leads to ``more`` for cats, and else to the end."""
    graph = graph_of("start", start=node("start"), more=node("more"))
    graph.add_conditional_edges("start", lambda state: "more" if state.get("topic") == "cats" else END)
    return graph


supervisor, both, sending = (one.compile() for one in (supervisor_graph(), both_graph(), sending_graph()))
parent, mixed, conditional = (one.compile() for one in (parent_graph(), mixed_graph(), conditional_graph()))
joined, deep, ending = (one.compile() for one in (joined_graph(), deep_graph(), ending_graph()))
parallel, parallel_decided = parallel_graph().compile(), decided_graph().compile()
split, twins = split_graph().compile(), twins_graph().compile()
