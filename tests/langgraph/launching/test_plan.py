"""The plan of a fork or resume: the nodes that run next, and which edits are refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.langgraph.conftest import opened
from viewer.engines import engine_named
from viewer.engines.langgraph.contents import Contents, contents_of
from viewer.engines.plan import Action, EditRefused, Edits
from viewer.models import Location
from viewer.records.bodies import stored_contents

ENGINE = engine_named("langgraph")


def newest(location: Location, thread: str) -> Contents:
    """The contents of a thread's newest checkpoint."""
    row = opened(location, thread).checkpoints.order_by("-checkpoint_id").first()
    assert row is not None
    contents = stored_contents(row)
    assert isinstance(contents, Contents)
    return contents


def steps(contents: Contents, edits: Edits | None = None, *, is_fork: bool) -> list[tuple[str, Action]]:
    found = ENGINE.plan(contents, edits or Edits(), is_fork=is_fork)
    return [(step.unit, step.action) for step in found]


@pytest.mark.parametrize("version", ["lg06", "lg12"])
def test_a_resume_keeps_what_has_finished_and_a_fork_runs_it(
    threads: Callable[[str], Location], version: str
) -> None:
    failed = newest(threads(version), "fan-failed")
    forked = dict(steps(failed, is_fork=True))
    resumed = dict(steps(failed, is_fork=False))
    assert forked.keys() == resumed.keys() and set(forked.values()) == {Action.RUNS}
    assert sorted(set(resumed.values())) == [Action.KEPT, Action.RUNS]


def test_after_an_update_as_a_node_only_the_graph_knows_what_follows(
    threads: Callable[[str], Location],
) -> None:
    failed = newest(threads("lg12"), "fan-failed")
    assert steps(failed, Edits(state={"topic": "x"}, as_node="a"), is_fork=True) == []


@pytest.mark.parametrize(
    ("edits", "is_fork"),
    [
        (Edits(inputs={"topic": "x"}), True),
        (Edits(again=frozenset(["a"])), True),
        (Edits(state={"topic": "x"}), False),
        (Edits(state={"topic": "x"}, answers={"": "yes"}), True),
        (Edits(answers={"": "yes"}), True),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused(
    threads: Callable[[str], Location], edits: Edits, is_fork: bool
) -> None:
    with pytest.raises(EditRefused):
        steps(newest(threads("lg12"), "fan-failed"), edits, is_fork=is_fork)


def test_an_answer_is_possible_where_something_waits(threads: Callable[[str], Location]) -> None:
    waiting = newest(threads("lg12"), "appr-waiting")
    assert steps(waiting, Edits(answers={"": "yes"}), is_fork=True)


def test_a_store_that_does_not_name_what_follows_has_a_plan_without_steps(
    threads: Callable[[str], Location],
) -> None:
    assert steps(newest(threads("lg02_76"), "fan-failed"), is_fork=True) == []


def made(namespace: str = "", **values: Any) -> Contents:
    checkpoint = {"channel_values": values, "versions_seen": {"a": {}}}
    return contents_of({"checkpoint_id": "c", "checkpoint_ns": namespace, "checkpoint": checkpoint})


def test_channels_are_editable_with_their_types_unless_a_part_is_not_decoded() -> None:
    opaque = {"__opaque__": "pickled", "encoding": "pickle", "size": 3}
    edited = ENGINE.editable(made(count=1, names=["x"], secret=[opaque]))
    assert edited.state == {"count": 1, "names": ["x"]} and edited.as_nodes == ("a",)


def test_a_subgraphs_checkpoint_is_not_forked_alone() -> None:
    inner = made("n:1", count=1)
    assert ENGINE.editable(inner).state is None
    with pytest.raises(EditRefused):
        steps(inner, is_fork=True)
