"""What Forkline is asked to do, and what does the same with LangGraph itself."""

from dataclasses import dataclass, field
from typing import Any

from quality.compatibility.graphs.rows.sides import Action

CATS, DOGS = {"topic": "cats"}, {"topic": "dogs"}
# Messages as Forkline's forms have them, and as LangGraph's own API takes them.
CHANGED = {"type": "human", "content": "About dogs?", "id": "asked"}
EDITED = {
    "__type__": "langchain_core.messages.human.HumanMessage",
    "fields": {"content": "About dogs?", "id": "asked"},
}


@dataclass(frozen=True)
class Scenario:
    """A thread, a request on one copy of it, and actions of own.py on the other.

    ``at`` is the position of the checkpoint for both. ``failing`` is a node that fails while the thread is
    recorded. ``missing`` says what a version lacks in which the graph is None.
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
    is_async: bool = False
    missing: str = ""
    serializer: str = ""
    # A kind of store in which Forkline refuses this, and part of what it says.
    refused: tuple[str, str] = ("", "")


RUN: Action = {"run": True}
SCENARIOS = (
    Scenario(
        "resume after a failure in a fan-out",
        "graphs:fan",
        {},
        (RUN,),
        ("end", "right"),
        "resume",
        failing="right",
    ),
    Scenario("replay from the middle", "graphs:fan", {}, (RUN,), ("end", "left", "right"), at=2),
    Scenario(
        "fork with an edited channel",
        "graphs:fan",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("end", "left", "right"),
        at=2,
    ),
    Scenario(
        "fork with a replaced reducer channel",
        "graphs:fan",
        {"state": {"notes": ["mine"]}, "replace": ["notes"]},
        ({"values": {"notes": ["mine"]}, "overwrite": ["notes"], **RUN},),
        ("end", "left", "right"),
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
    Scenario(
        "fork as a node",
        "graphs:approval",
        {"state": {"decision": "no"}, "as_node": "approve"},
        ({"values": {"decision": "no"}, "as_node": "approve", **RUN},),
        ("drop",),
    ),
    Scenario(
        "answer to an interrupt",
        "graphs:approval",
        {"typed": {"answers": {"": "yes"}}},
        ({"answer": "yes"},),
        ("approve", "publish"),
        "resume",
    ),
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
    Scenario(
        "Send map-reduce half done",
        "graphs:spread",
        {},
        (RUN,),
        ("end", "work-b"),
        "resume",
        failing="work-b",
    ),
    Scenario(
        "Send map-reduce from its start", "graphs:spread", {}, (RUN,), ("end", "work-a", "work-b"), at=1
    ),
    Scenario(
        "Command(goto) chooses again",
        "steering:goto",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("choose", "right"),
        at=1,
    ),
    Scenario(
        "retried node",
        "steering:retried",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("flaky", "flaky"),
        at=2,
    ),
    Scenario(
        "cached node with the same input",
        "features:cached",
        {},
        (RUN,),
        ("last",),
        at=2,
        missing="no node caches",
    ),
    Scenario(
        "cached node with an edited input",
        "features:cached",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("last", "slow"),
        at=2,
        missing="no node caches",
    ),
    Scenario(
        'thread of durability="exit"',
        "graphs:fan",
        {"state": DOGS, "as_node": "start"},
        ({"values": DOGS, "as_node": "start", **RUN},),
        ("end", "left", "right"),
        recording=({"input": CATS, "late": True},),
    ),
    Scenario(
        "async graph",
        "graphs:awaited",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("last", "wait"),
        at=1,
        is_async=True,
    ),
    Scenario(
        "functional API resumes without its finished tasks",
        "functions:write",
        {},
        (RUN,),
        ("publish",),
        "resume",
        given="cats",
        failing="publish",
    ),
    Scenario(
        "functional API, async, with an answer",
        "functions:reviewed",
        {"typed": {"answers": {"": "yes"}}},
        ({"answer": "yes"},),
        ("publish",),
        "resume",
        given="cats",
        is_async=True,
    ),
    Scenario(
        "agent with a tool, forked after the tool's call",
        "agents:agent",
        {},
        (RUN,),
        ("model", "weather"),
        at=2,
        given={"messages": ["Oslo"]},
        is_async=True,
    ),
    Scenario(
        "DeltaChannel with an edited channel",
        "features:delta",
        {"state": {"notes": ["mine"]}},
        ({"values": {"notes": ["mine"]}, **RUN},),
        ("end",),
        at=3,
        missing="no DeltaChannel",
    ),
    Scenario(
        "DeltaChannel replayed",
        "features:delta",
        {},
        (RUN,),
        ("end", "middle"),
        at=2,
        missing="no DeltaChannel",
    ),
    Scenario(
        "pickled value, accepted",
        "features:pickled",
        {"state": DOGS},
        ({"values": DOGS, **RUN},),
        ("last",),
        at=2,
        serializer="pickled",
        refused=("PostgreSQL", "stored as pickle"),
    ),
)
