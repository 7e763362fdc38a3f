"""Recorded databases of 1.0, and of a graph whose checkpoints hold a channel only as changes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.langgraph.conftest import opened
from viewer.models import Location, Run
from viewer.records.bodies import stored_contents

Threads = Callable[[str], Location]


def bodies(run: Run) -> list[Any]:
    """The decoded checkpoints of a thread, oldest first."""
    rows = run.checkpoints.select_related("location").order_by("row")
    contents: list[Any] = [stored_contents(row) for row in rows]
    return [one.body for one in contents]


@pytest.mark.parametrize(
    ("thread", "status", "count"),
    [("failed", "failed", 3), ("waiting", "waiting", 3), ("agent", "completed", 5)],
)
def test_a_thread_of_1_0_is_read(threads: Threads, thread: str, status: str, count: int) -> None:
    location = threads("lg10")
    run = opened(location, thread)
    assert (run.status, run.checkpoint_count, run.branch_count) == (status, count, 1)
    assert not location.problems.exists()
    last = bodies(run)[-1]
    channels = {write["channel"] for write in last["writes"]}
    # What a failed node and its neighbour wrote, and the question of a waiting one.
    expected = {"failed": {"notes", "__error__"}, "waiting": {"__interrupt__"}, "agent": set()}
    assert expected[thread] <= channels
    messages = last["checkpoint"]["channel_values"].get("messages", [])
    assert len(messages) == (4 if thread == "agent" else 0)


def test_a_channel_of_changes_is_a_snapshot_or_missing(threads: Threads) -> None:
    location = threads("lg12_delta")
    run = opened(location, "delta")
    assert (run.status, run.checkpoint_count) == ("completed", 10) and not location.problems.exists()
    snapshots = [body["checkpoint"]["channel_values"].get("notes") for body in bodies(run)]
    # Every third change writes one.
    assert [number for number, found in enumerate(snapshots) if found] == [4, 9]
    assert snapshots[4]["__type__"] == "DeltaSnapshot"
    assert snapshots[4]["fields"] == ["start on cats", "middle on cats", "end on cats"]
    changes = [
        write["value"] for body in bodies(run) for write in body["writes"] if write["channel"] == "notes"
    ]
    assert [one for change in changes for one in change] == snapshots[9]["fields"]
