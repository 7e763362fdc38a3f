"""The progress of flows: a checkpoint knows only the methods that have begun."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.imported import imported_location
from tests.real_stores import copy_of, write_checkpoint
from viewer.models import Location

pytestmark = pytest.mark.django_db

FIRST, SECOND, THIRD, FOURTH = (f"20260101T00000{number}_aaaaaaaa" for number in range(4))


def flow(done: Sequence[str], begun: Sequence[str] = (), *ends: str, inner: str = "") -> dict[str, Any]:
    """A flow's checkpoint: finished methods, methods that have begun, then further events.

    ``inner`` is what was the last to happen in a flow that it had started itself.
    """
    events: list[tuple[str, str, str | None]] = [("flow_started", "Press", None)]
    for name in done:
        events += [("method_execution_started", "Press", name), ("method_execution_finished", "Press", name)]
    events += [("method_execution_started", "Press", name) for name in begun]
    if inner:
        events += [("flow_started", "Inner", None), ("method_execution_started", "Inner", "within")]
        events += [(inner, "Inner", None)]
    events += [(end, "Press", None) for end in ends]
    nodes = {
        f"event {number}": {"event": {"type": kind, "flow_name": name, "method_name": method}}
        for number, (kind, name, method) in enumerate(events)
    }
    entity = {
        "entity_type": "flow",
        "checkpoint_state": {"id": "press"},
        "checkpoint_completed_methods": list(done),
        "checkpoint_method_counts": dict.fromkeys(done, 1),
    }
    return {"entities": [entity], "event_record": {"nodes": nodes}, "trigger": "method_execution_finished"}


def progress(folder: Path) -> list[str]:
    """The progress of each checkpoint after an import, oldest first."""
    location = imported_location(folder)
    return shown(location)


def shown(location: Location) -> list[str]:
    return [row.progress for row in location.checkpoints.select_related("run").order_by("row")]


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.14.7"])
def test_the_total_of_earlier_checkpoints_comes_from_later_ones(version: str, tmp_path: Path) -> None:
    assert progress(copy_of(f"{version}/flow", tmp_path)) == ["1/3", "2/3", "3 done"]


def test_the_total_grows_while_the_flow_runs(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    assert progress(tmp_path) == ["1 done"]
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b"], ["c"]))
    assert progress(tmp_path) == ["1/3", "2/3"]
    write_checkpoint(tmp_path, THIRD, SECOND, **flow(["a", "b", "c"]))
    assert progress(tmp_path) == ["1/3", "2/3", "3 done"]
    write_checkpoint(tmp_path, FOURTH, THIRD, **flow(["a", "b", "c"], [], "flow_finished"))
    assert progress(tmp_path) == ["1/3", "2/3", "3/3", "3/3"]


def test_branches_share_the_total_of_their_run(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b", "c"], [], "flow_finished"))
    write_checkpoint(tmp_path, THIRD, FIRST, "other", **flow(["a", "b"]))
    assert progress(tmp_path) == ["1/3", "3/3", "2/3"]


def test_a_finished_flow_is_complete_even_if_another_branch_has_more_methods(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b"], ["overtaken"], "flow_finished"))
    write_checkpoint(tmp_path, THIRD, FIRST, "other", **flow(["a", "c", "d"]))
    assert progress(tmp_path) == ["1/3", "2/2", "3 done"]


@pytest.mark.parametrize(
    "unfinished",
    [
        flow(["a"], [], "flow_failed"),
        flow(["a"], [], "flow_finished", "flow_started"),
        flow(["a"], inner="flow_finished"),
        {**flow(["a", "b"], [], "flow_finished"), **{"entities": flow(["a"])["entities"]}},
    ],
    ids=["failed", "started again", "a flow inside finished", "a method is to run again"],
)
def test_an_unfinished_flow_is_not_complete(unfinished: dict[str, Any], tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **unfinished)
    assert progress(tmp_path) in (["1 done"], ["1/2"])


def test_methods_of_a_nested_flow_do_not_count(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"], ["b"], inner="method_execution_finished"))
    assert progress(tmp_path) == ["1/2"]
