"""Events as rows of the page of a job."""

from typing import Any

from django.utils import timezone

from viewer.models import JobEvent
from viewer.presentation.jobs.events import EventList, add_events


def event(seq: int, kind: str, **data: Any) -> JobEvent:
    return JobEvent(seq=seq, kind=kind, at=timezone.now(), data=data)


def described(*events: JobEvent) -> EventList:
    event_list = EventList()
    add_events(event_list, events)
    return event_list


def test_streamed_text_is_one_row_until_another_event() -> None:
    rows = described(
        event(1, "text", text="The ", agent="Writer"),
        event(2, "text", text="end", agent="Writer"),
        event(3, "model_completed", model="m", agent="Writer", tokens=5),
        event(4, "text", text="And", agent="Writer"),
        event(5, "text", text="Other", agent="Checker"),
    ).rows
    assert [(row.seq, row.text) for row in rows] == [
        (1, "The end"),
        (3, "m answered"),
        (4, "And"),
        (5, "Other"),
    ]


def test_text_for_an_existing_row_is_marked() -> None:
    event_list = described(event(1, "text", text="The ", agent="Writer"))
    assert [row.text for row in event_list.pop_new().rows] == ["The "]
    add_events(
        event_list, [event(2, "text", text="end", agent="Writer"), event(3, "text", text=".", agent="Writer")]
    )
    new = event_list.pop_new()
    assert (new.rows, new.added_to, new.added) == ([], 1, "end.")
    assert event_list.pop_new().added_to is None


def test_each_kind_has_a_label_and_failures_a_reason() -> None:
    rows = described(
        event(1, "task_started", position=2, task="x", description="Draft it", agent="Writer"),
        event(2, "tool_failed", tool="search", agent="Writer", error="no network"),
        event(3, "checkpoint", id="20261121T001329_8069945e", parent="", path="/a", branch="b", trigger="t"),
        event(4, "something_newer"),
        event(5, "steps", steps=[]),
        event(6, "ended", status="failed"),
    ).rows
    assert [row.text for row in rows] == [
        "Task 2 started",
        "search failed",
        "Checkpoint written",
        "something_newer",
    ]
    assert (rows[1].tone, rows[1].detail) == ("bad", "no network")
    assert rows[2].checkpoint == "20261121T001329_8069945e"


def test_an_event_without_data_is_shown() -> None:
    assert described(event(1, "tool_started")).rows[0].text == "Called the tool "
