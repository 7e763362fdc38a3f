"""The progress of a run, computed from its events."""

from typing import Any

import pytest

from viewer.models import Job
from viewer.presentation.jobs.events import Progress, advance, halt, progress_of

PLAN = [
    {
        "unit": "a",
        "position": 1,
        "title": "Research",
        "agent": "Researcher",
        "action": "kept",
        "reason": "finished",
    },
    {
        "unit": "b",
        "position": 2,
        "title": "Draft",
        "agent": "Writer",
        "action": "again",
        "reason": "requested",
    },
    {
        "unit": "c",
        "position": 3,
        "title": "Check",
        "agent": "Checker",
        "action": "runs",
        "reason": "unfinished",
    },
]


def after(*events: tuple[str, dict[str, Any]]) -> Progress:
    progress = progress_of(PLAN)
    for seq, (kind, data) in enumerate(events, 1):
        advance(progress, seq, kind, data)
    return progress


def test_kept_tasks_count_as_done_before_the_start() -> None:
    progress = after()
    assert (progress.done, progress.total, progress.running) == (1, 3, "")


def test_a_running_task_is_named_and_a_finished_one_is_counted() -> None:
    started = after(("task_started", {"task": "b"}))
    assert (started.running, started.done) == ("Draft", 1)
    done = after(("task_started", {"task": "b"}), ("task_completed", {"task": "b"}))
    assert (done.running, done.done) == ("", 2)


def test_when_one_of_two_parallel_tasks_ends_the_other_is_named() -> None:
    events = [
        ("task_started", {"task": "b"}),
        ("task_started", {"task": "c"}),
        ("task_completed", {"task": "c"}),
    ]
    assert after(*events).running == "Draft"


def test_a_failed_task_is_not_done() -> None:
    progress = after(("task_started", {"task": "b"}), ("task_failed", {"task": "b", "error": "no"}))
    assert [step.state for step in progress.steps] == ["kept", "failed", "waiting"]


@pytest.mark.parametrize(
    ("status", "events", "states"),
    [
        (Job.Status.CANCELLED, [], ["kept", "unrun", "unrun"]),
        (Job.Status.CANCELLED, [("task_started", {"task": "b"})], ["kept", "stopped", "unrun"]),
        (Job.Status.FAILED, [("task_started", {"task": "b"})], ["kept", "failed", "unrun"]),
        (
            Job.Status.FAILED,
            [
                ("task_started", {"task": "b"}),
                ("task_started", {"task": "c"}),
                ("task_failed", {"task": "c"}),
            ],
            ["kept", "stopped", "failed"],
        ),
    ],
)
def test_no_step_of_an_ended_run_is_running(
    status: str, events: list[tuple[str, dict[str, Any]]], states: list[str]
) -> None:
    progress = after(*events)
    halt(progress, status)
    assert [step.state for step in progress.steps] == states
    assert (progress.running, progress.done) == ("", 1)


def test_steps_that_a_succeeded_run_left_out_are_skipped_and_do_not_count() -> None:
    progress = after(("task_completed", {"task": "b"}))
    halt(progress, Job.Status.SUCCEEDED)
    assert [step.state for step in progress.steps] == ["kept", "done", "skipped"]
    assert (progress.done, progress.total) == (2, 2)


def test_the_reason_of_a_step_is_shown_until_it_starts() -> None:
    progress = after(("task_started", {"task": "b"}))
    assert [step.shown_reason for step in progress.steps] == ["finished", "requested", "unfinished"]
    advance(progress, 2, "task_started", {"task": "c"})
    assert progress.steps[2].shown_reason == ""


def test_steps_reported_by_the_runner_are_added_once() -> None:
    found = {"steps": [{"unit": "c", "title": "Check"}, {"unit": "d", "title": "Publish"}, "nonsense"]}
    progress = after(("steps", found), ("steps", found))
    assert [step.title for step in progress.steps] == ["Research", "Draft", "Check", "Publish"]
    assert progress.steps[-1].position == 4


def test_a_method_missing_from_the_plan_is_shown_by_its_name() -> None:
    progress = after(("method_started", {"method": "outline"}))
    assert (progress.running, progress.total) == ("outline", 4)


def test_streamed_text_is_one_line_of_one_agent() -> None:
    progress = after(
        ("text", {"text": "The claim\n", "agent": "Checker"}),
        ("text", {"text": "holds.", "agent": "Checker"}),
    )
    assert (progress.speaker, progress.text) == ("Checker", "The claim holds.")
    advance(progress, 3, "text", {"text": "Hello", "agent": "Writer"})
    assert (progress.speaker, progress.text) == ("Writer", "Hello")


def test_only_the_end_of_a_long_stream_is_shown() -> None:
    progress = after(*[("text", {"text": f"word{n} ", "agent": "Writer"}) for n in range(1000)])
    assert progress.text.endswith("word999 ")
    assert len(progress.text) == 400


def test_tokens_are_the_sum_so_far() -> None:
    progress = after(
        ("model_completed", {"tokens": 7, "total_tokens": 7}), ("model_completed", {"total_tokens": 19})
    )
    assert progress.tokens == 19
    advance(progress, 3, "model_completed", {"total_tokens": None})
    assert progress.tokens == 19


def test_a_repeated_event_is_counted_once() -> None:
    progress = after(("text", {"text": "once", "agent": ""}))
    advance(progress, 1, "text", {"text": "twice", "agent": ""})
    assert progress.text == "once"
