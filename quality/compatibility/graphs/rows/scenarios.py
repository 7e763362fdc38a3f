"""What Forkline is asked to do, and what does the same with LangGraph itself."""

from dataclasses import dataclass, field
from typing import Any

from tests.engine_runs.sides import Action

CATS, DOGS = {"topic": "cats"}, {"topic": "dogs"}
# Messages as Forkline's forms have them, and as LangGraph's own API takes them.
CHANGED = {"type": "human", "content": "About dogs?", "id": "asked"}
EDITED = {
    "__type__": "langchain_core.messages.human.HumanMessage",
    "fields": {"content": "About dogs?", "id": "asked"},
}


@dataclass(frozen=True)
class Scenario:
    """A thread, a request on one copy of it, and actions of by_langgraph.py on the other.

    ``at`` is the position of the checkpoint for both. ``failing`` is a node that fails while the thread is
    recorded. ``in_turn`` records one node after the other: a failure cancels those beside it that have not
    finished. ``missing`` says what a version lacks in which the graph is None.
    """

    name: str
    graph: str
    request: dict[str, Any]
    actions: tuple[Action, ...]
    nodes: tuple[str, ...]
    kind: str = "fork"
    at: int = -1
    given: Any = field(default_factory=lambda: CATS)
    recording: tuple[Action, ...] = ()
    failing: str = ""
    in_turn: bool = False
    is_async: bool = False
    missing: str = ""
    serializer: str = ""
    # A kind of store in which Forkline refuses this, and part of what it says.
    refused: tuple[str, str] = ("", "")


RUN: Action = {"run": True}


def replayed(name: str, graph: str, *nodes: str, **options: Any) -> Scenario:
    """The nodes after the checkpoint run again, or for the first time."""
    return Scenario(name, graph, {}, (RUN,), nodes, **options)


def edited(name: str, graph: str, state: dict[str, Any], *nodes: str, **options: Any) -> Scenario:
    """A fork with these values in its state."""
    return Scenario(name, graph, {"state": state}, ({"values": state, **RUN},), nodes, **options)


def edited_as(
    name: str, graph: str, node: str, state: dict[str, Any], *nodes: str, **options: Any
) -> Scenario:
    """A fork with these values, as if this node had written them."""
    request, action = {"state": state, "as_node": node}, {"values": state, "as_node": node, **RUN}
    return Scenario(name, graph, request, (action,), nodes, **options)


def answered(name: str, graph: str, *nodes: str, **options: Any) -> Scenario:
    """The only question of the thread is answered with yes."""
    request = {"typed": {"answers": {"": "yes"}}}
    return Scenario(name, graph, request, ({"answer": "yes"},), nodes, "resume", **options)


def chosen(
    name: str,
    graph: str,
    goto: list[str],
    *nodes: str,
    state: dict[str, Any] | None = None,
    sends: tuple[Any, ...] = (),
    **options: Any,
) -> Scenario:
    """A fork with an edited state behind a node that has chosen what follows with ``Command``.

    ``update_state`` keeps that only if the same choice is given again.
    """
    values = state or DOGS
    action = {"values": values, "goto": goto, "sends": sends, **RUN}
    return Scenario(name, graph, {"state": values}, (action,), nodes, **options)


def answered_fork(name: str, graph: str, answer: str, *nodes: str, **options: Any) -> Scenario:
    """A fork that only answers the only question of the thread, and LangGraph's own resume."""
    request = {"typed": {"answers": {"": answer}}}
    return Scenario(name, graph, request, ({"answer": answer, "at": ""},), nodes, "fork", **options)


MINE = {"notes": ["mine"]}
SENDS = (("work", {"topic": "a"}), ("work", {"topic": "b"}))
FAN = ("end", "left", "right")
# The first version that writes checkpoints at the exit only.
DURABILITY, NO_DURABILITY = (0, 3), "no durability"
NO_CACHE, NO_DELTA = {"missing": "no node caches"}, {"missing": "no DeltaChannel"}
SCENARIOS = (
    replayed(
        "resume after a failure in a fan-out",
        "graphs:fan",
        "end",
        "right",
        kind="resume",
        failing="right",
        in_turn=True,
    ),
    replayed("replay from the middle", "graphs:fan", *FAN, at=2),
    edited("fork with an edited channel", "graphs:fan", DOGS, *FAN, at=2),
    Scenario(
        "fork with a replaced reducer channel",
        "graphs:fan",
        {"state": MINE, "replace": ["notes"]},
        ({"values": MINE, "overwrite": ["notes"], **RUN},),
        FAN,
        at=2,
    ),
    Scenario(
        "fork with an edited message",
        "graphs:chat",
        {"state": {"messages": [EDITED]}},
        ({"values": {"messages": [CHANGED]}, **RUN},),
        ("reply",),
        at=-2,
    ),
    edited_as("fork as a node", "graphs:approval", "approve", {"decision": "no"}, "drop"),
    answered("answer to an interrupt", "graphs:approval", "approve", "publish"),
    Scenario(
        "static breakpoint before a node",
        "graphs:fan",
        {"stop_before": ["end"]},
        ({"before": ["end"], **RUN},),
        ("left", "right", "start"),
        at=1,
    ),
    Scenario(
        "static breakpoint after a node",
        "graphs:fan",
        {"stop_after": ["start"]},
        ({"after": ["start"], **RUN},),
        ("start",),
        at=1,
    ),
    replayed(
        "Send map-reduce half done",
        "graphs:spread",
        "end",
        "work-b",
        kind="resume",
        failing="work-b",
        in_turn=True,
    ),
    replayed("Send map-reduce from its start", "graphs:spread", "end", "work-a", "work-b", at=1),
    edited("Command(goto) chooses again", "steering:goto", DOGS, "choose", "right", at=1),
    chosen(
        "Command(goto) of a supervisor, edited",
        "commands:supervisor",
        ["researcher"],
        *("researcher", "supervisor", "supervisor", "writer"),
        at=2,
    ),
    chosen(
        "Command(goto) of a worker, edited",
        "commands:supervisor",
        ["supervisor"],
        *("supervisor", "supervisor", "writer"),
        at=3,
    ),
    chosen(
        "Command(goto) with an edited channel with a reducer",
        "commands:supervisor",
        ["writer"],
        *("supervisor", "writer"),
        state=MINE,
        at=4,
    ),
    chosen(
        "Command(goto) of several nodes, edited",
        "commands:both",
        ["left", "right"],
        "end",
        "left",
        "right",
        at=2,
    ),
    chosen(
        "Command(goto) with Send, edited",
        "commands:sending",
        ["beside"],
        *("beside", "work-a", "work-b"),
        sends=SENDS,
        at=2,
    ),
    chosen("Command.PARENT of a subgraph, edited", "commands:parent", ["after"], "after", at=2),
    chosen("Command(goto) beside an edge, edited", "commands:mixed", ["chosen"], "chosen", "fixed", at=2),
    chosen(
        "Command(goto) beside a condition, edited", "commands:conditional", ["chosen"], "chosen", "no", at=2
    ),
    edited("condition of an edited state", "commands:ending", DOGS | {"topic": "cats"}, "more", at=2),
    chosen("handoff of an agent, edited", "handoffs:agents", ["bob"], "bob", state={"topic": "dogs"}, at=2),
    edited("join of parallel nodes, edited before them", "graphs:fan", MINE, *FAN, at=2),
    answered_fork("answer in a fork of a fan-out", "asking:short", "yes", "end", "first"),
    answered_fork(
        "answer in a fork of a function", "functions:reviewed", "yes", "publish", given="cats", is_async=True
    ),
    answered_fork("answer in a fork of sent tasks", "asking:sent", "yes", "end", "work-b"),
    edited("retried node", "steering:retried", DOGS, "flaky", "flaky", at=2),
    replayed("cached node with the same input", "features:cached", "last", at=2, **NO_CACHE),
    edited("cached node with an edited input", "features:cached", DOGS, "last", "slow", at=2, **NO_CACHE),
    edited_as(
        'thread of durability="exit"',
        "graphs:fan",
        "start",
        DOGS,
        *FAN,
        recording=({"input": CATS, "late": True},),
    ),
    edited("async graph", "graphs:awaited", DOGS, "last", "wait", at=1, is_async=True),
    replayed(
        "functional API resumes without its finished tasks",
        "functions:write",
        "publish",
        kind="resume",
        given="cats",
        failing="publish",
    ),
    answered(
        "functional API, async, with an answer", "functions:reviewed", "publish", given="cats", is_async=True
    ),
    replayed(
        "agent with a tool, forked after the tool's call",
        "agents:agent",
        *("model", "weather"),
        at=2,
        given={"messages": ["Oslo"]},
        is_async=True,
    ),
    edited("DeltaChannel with an edited channel", "features:delta", MINE, "end", at=3, **NO_DELTA),
    replayed("DeltaChannel replayed", "features:delta", "end", "middle", at=2, **NO_DELTA),
    edited(
        "pickled value, accepted",
        "features:pickled",
        DOGS,
        "last",
        at=2,
        serializer="pickled",
        refused=("PostgreSQL", "stored as pickle"),
    ),
)
