"""The examples of LangGraph's documentation, as a command of Forkline and as calls of LangGraph itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Action = dict[str, Any]
RUN: Action = {"run": True}
CHICKENS = {"topic": "chickens"}
AS_CHICKENS = ("--state", '{"topic": "chickens"}')
JOKE: Sequence[Action] = [{"input": {}}]
ASKED: Sequence[Action] = [{"input": {"value": []}}]
FILLED: Sequence[Action] = [*ASKED, {"answer": "Ada"}, {"answer": 30}]
MAIL: Sequence[Action] = [{"input": {"messages": [["user", "Write to Ada."]]}}]
GATED: Sequence[Action] = [{"input": {"details": "pay"}}]
WEATHER: Sequence[Action] = [{"input": {"messages": [["user", "Oslo"]]}}]


@dataclass(frozen=True)
class Example:
    """A recorded thread, a command on one copy of it, and actions of own.py on the other.

    ``at`` is the position of the checkpoint for both, in the only subgraph if ``inner``. ``answers`` are
    typed while the command runs. ``nodes`` are those that run, in alphabetical order.
    """

    name: str
    graph: str
    recording: Sequence[Action]
    command: Sequence[str]
    actions: Sequence[Action]
    nodes: Sequence[str]
    at: int = -1
    answers: Sequence[str] = ()
    inner: bool = False


TIME_TRAVEL = (
    Example("replay", "joke", JOKE, ["fork"], [RUN], ["write_joke"], 2),
    Example(
        "fork with another value",
        "joke",
        JOKE,
        ["fork", *AS_CHICKENS],
        [{"values": CHICKENS, **RUN}],
        ["write_joke"],
        2,
    ),
    Example(
        "fork as a node",
        "joke",
        JOKE,
        ["fork", *AS_CHICKENS, "--as-node", "pick_topic"],
        [{"values": CHICKENS, "as_node": "pick_topic", **RUN}],
        ["write_joke"],
        2,
    ),
    Example(
        "fork that skips a node",
        "joke",
        JOKE,
        ["fork", *AS_CHICKENS, "--as-node", "pick_topic"],
        [{"values": CHICKENS, "as_node": "pick_topic", **RUN}],
        ["write_joke"],
        1,
    ),
    Example(
        "fork before an interrupt asks again",
        "form",
        FILLED,
        ["fork", "--state", '{"value": ["forked"]}'],
        [{"values": {"value": ["forked"]}, **RUN}, {"answer": "Bob"}, {"answer": 40}],
        ["ask_age", "ask_age", "ask_name", "ask_name", "finish"],
        1,
        ("Bob", "40"),
    ),
    Example(
        "fork between two interrupts",
        "form",
        FILLED,
        ["fork", "--state", '{"value": ["changed"]}'],
        [{"values": {"value": ["changed"]}, **RUN}, {"answer": 40}],
        ["ask_age", "ask_age", "finish"],
        2,
        ("40",),
    ),
    Example(
        "fork before a subgraph runs all of it",
        "whole",
        FILLED,
        ["fork", "--state", '{"value": ["forked"]}'],
        [{"values": {"value": ["forked"]}, **RUN}, {"answer": "Bob"}, {"answer": 40}],
        ["ask_age", "ask_age", "ask_name", "ask_name", "finish"],
        1,
        ("Bob", "40"),
    ),
    Example(
        "fork inside a subgraph with its own history",
        "stepwise",
        FILLED[:2],
        ["fork", "--state", '{"value": ["forked"]}'],
        [{"values": {"value": ["forked"]}, "inner": True, "at_change": True, **RUN}, {"answer": 40}],
        ["ask_age", "ask_age", "finish"],
        -1,
        ("40",),
        inner=True,
    ),
)
INTERRUPTS = (
    Example(
        "approve",
        "gated",
        GATED,
        ["resume", "--answer", "true"],
        [{"answer": True}],
        ["gate", "proceed"],
    ),
    Example(
        "reject",
        "gated",
        GATED,
        ["resume", "--answer", "false"],
        [{"answer": False}],
        ["cancel", "gate"],
    ),
    Example(
        "review and edit",
        "reviewed",
        [{"input": {"text": "Draft"}}],
        ["resume", "--answer", "A better draft"],
        [{"answer": "A better draft"}],
        ["review"],
    ),
    Example(
        "approve a tool's call with another argument",
        "mail",
        MAIL,
        ["resume", "--answer", '{"action": "approve", "subject": "Dinner"}'],
        [{"answer": {"action": "approve", "subject": "Dinner"}}],
        ["send_mail", "use_tool", "write_mail"],
    ),
    Example(
        "validate the answer",
        "age",
        [{"input": {}}],
        ["resume", "--answer", "thirty"],
        [{"answer": "thirty"}, {"answer": 30}],
        ["collect_age", "collect_age", "collect_age"],
        answers=("30",),
    ),
    Example(
        "several interrupts in one node",
        "introduction",
        ASKED,
        ["resume", "--answer", "Ada"],
        [{"answer": "Ada"}, {"answer": 30}, {"answer": "Ulm"}],
        ["introduce", "introduce", "introduce"],
        answers=("30", "Ulm"),
    ),
    Example(
        "a subgraph called as a function",
        "called",
        ASKED,
        ["resume", "--answer", "Ada"],
        [{"answer": "Ada"}, {"answer": 30}],
        ["ask_age", "ask_age", "ask_name", "call_form", "call_form", "finish"],
        answers=("30",),
    ),
    Example(
        "an answer that fits a schema",
        "schema",
        [{"input": {}}],
        ["resume", "--answer", '{"approved": true}'],
        [{"answer": {"approved": True}}],
        ["decide"],
    ),
    Example(
        "approve an agent's tool call",
        "agent",
        WEATHER,
        ["resume", "--answer", '{"decisions": [{"type": "approve"}]}'],
        [{"answer": {"decisions": [{"type": "approve"}]}}],
        ["model", "weather"],
    ),
    Example(
        "reject an agent's tool call",
        "agent",
        WEATHER,
        ["resume", "--answer", '{"decisions": [{"type": "reject", "message": "Not today."}]}'],
        [{"answer": {"decisions": [{"type": "reject", "message": "Not today."}]}}],
        ["model"],
    ),
)
PERSISTENCE = (
    Example(
        "an update passes through the reducer",
        "sums",
        [{"input": {"foo": "", "bar": []}}],
        ["fork", "--state", '{"foo": "2", "bar": ["c"]}'],
        [{"values": {"foo": "2", "bar": ["c"]}, **RUN}],
        ["b"],
        2,
    ),
    Example(
        "one step at a time",
        "sums",
        [{"input": {"foo": "", "bar": []}, "before": ["node_a"]}],
        ["resume", "--stop-after", "node_a"],
        [{"after": ["node_a"], **RUN}],
        ["a"],
    ),
)
EXAMPLES = (*TIME_TRAVEL, *INTERRUPTS, *PERSISTENCE)
