"""The pages of timelines."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.real_stores import copy_of
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Job, JobEvent, Run
from viewer.presentation.spans import branch_spans, job_spans
from viewer.records.accounts import teammate

pytestmark = pytest.mark.django_db


def page(reader: Client, run: Run, **query: str) -> str:
    response = reader.get(reverse("run-timeline", args=[run.uid]), query)
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_timeline_shows_units_calls_costs_and_what_is_folded(reader: Client, crew_run: Run) -> None:
    html = page(reader, crew_run, branch="exp-a")
    assert html.count('class="bar-call is-model"') == 3
    assert "until the fork" in html and "without activity is folded" in html
    assert "Researcher on AI" in html and "gpt-4o-mini" in html and "$0.0000" in html


def test_a_selected_call_shows_its_prompt_answer_and_the_checkpoint_before(
    reader: Client, crew_run: Run
) -> None:
    html = page(reader, crew_run, branch="main")
    selected = html.split("?branch=main&amp;span=")[2].split('"')[0]
    html = page(reader, crew_run, branch="main", span=selected)
    assert "Prompt</h3>" in html and "Answer" in html
    assert "Open the checkpoint before it" in html
    assert "Fork before this task" not in html, "A reader cannot run."
    teammate("reader", "run")
    assert "Fork before this task" in page(reader, crew_run, branch="main", span=selected)


def test_an_unknown_branch_and_span_show_the_newest_branch(reader: Client, crew_run: Run) -> None:
    assert "Select a bar" in page(reader, crew_run, branch="gone", span="gone", **{"from": "x", "to": "y"})


def test_hostile_names_are_only_text(tmp_path: Path, settings: Any, reader: Client) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.rglob("*.json"):
        path.write_text(path.read_text().replace("gpt-4o-mini", "<script>alert(1)</script>"))
    location = imported_location(folder)
    html = page(reader, location.runs.get())
    assert "<script>alert" not in html and "no price" in html


def test_a_job_shows_its_calls_with_a_failure_a_retry_and_a_question(reader: Client, crew_run: Run) -> None:
    job = Job.objects.create(kind="run", location=crew_run.location, run=crew_run, branch="main")
    events = [
        ("task_started", {"task": "t", "description": "Draft", "agent": "Writer"}),
        ("model_started", {"model": "gpt-4o-mini", "agent": "Writer"}),
        ("model_failed", {"model": "gpt-4o-mini", "agent": "Writer", "error": "429 Too Many Requests"}),
        ("model_started", {"model": "gpt-4o-mini", "agent": "Writer"}),
        ("text", {"text": "A draft.", "agent": "Writer"}),
        ("model_completed", {"model": "gpt-4o-mini", "agent": "Writer", "tokens": 20, "tokens_in": 20}),
        ("question", {"number": 1, "prompt": "Is it good?"}),
        ("answered", {"number": 1}),
        ("task_completed", {"task": "t", "output": "A draft."}),
    ]
    for seq, (kind, data) in enumerate(events):
        at = job.created_at.replace(second=seq, microsecond=0)
        JobEvent.objects.create(job=job, seq=seq, kind=kind, at=at, data=data)
    address = reverse("job-timeline", args=[job.pk])
    html = reader.get(address).content.decode()
    assert html.count("bar-call is-failed") == html.count("bar-call is-model") == 1
    assert html.count('class="bar-wait"') == 2 and "retry" in html and "waiting for a person" in html
    html = reader.get(address, {"span": "3"}).content.decode()
    assert "A draft." in html and "The prompt of this call is not recorded." in html
    assert "429 Too Many Requests" in reader.get(address, {"span": "1"}).content.decode()


def events_of(job: Job, *events: tuple[str, dict[str, Any]]) -> None:
    """Store these events of a job, a second apart."""
    start = job.created_at.replace(microsecond=0)
    for seq, (kind, data) in enumerate(events):
        at = start + timedelta(seconds=seq)
        JobEvent.objects.create(job=job, seq=seq, kind=kind, at=at, data=data)


def test_a_job_shows_the_failed_attempts_of_a_unit(reader: Client, crew_run: Run) -> None:
    job = Job.objects.create(kind="run", location=crew_run.location, run=crew_run, branch="main")
    Job.objects.filter(pk=job.pk).update(plan=[{"unit": "t", "title": "Draft the article"}])
    job.refresh_from_db()
    events_of(
        job,
        ("task_started", {"task": "t", "description": "Draft the article\nIn 300 words."}),
        ("task_retried", {"task": "t", "error": "<b>too loud</b>", "waited": 0.5}),
        ("task_retried", {"task": "t", "error": "still too loud", "waited": "soon"}),
        ("task_completed", {"task": "t", "output": "A draft."}),
    )
    address = reverse("job-timeline", args=[job.pk])
    html = reader.get(address).content.decode()
    assert html.count("bar-call is-failed is-attempt") == 2 and "3 attempts" in html
    assert ">Draft the article</a>" in html and "300 words" not in html
    spans = job_spans(job)
    assert [(span.kind, span.seconds) for span in spans if span.kind in ("attempt", "retry")] == [
        ("attempt", 0.5),
        ("retry", 0.5),
        ("attempt", 1.0),
        ("retry", 0.0),
    ]
    selected = next(span.id for span in spans if span.kind == "attempt")
    html = reader.get(address, {"span": selected}).content.decode()
    assert "&lt;b&gt;too loud&lt;/b&gt;" in html and "<b>too" not in html
    events = reader.get(job.get_absolute_url()).content.decode()
    assert "failed and is tried again" in events


def test_a_thread_shows_the_failed_attempts_that_its_job_recorded(
    tmp_path: Path, settings: Any, reader: Client
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg12.db", tmp_path))
    run = location.runs.get(key="fan-forked")
    assert "is-attempt" not in page(reader, run)
    unit = next(span for span in branch_spans(run, "").spans if span.unit_id)
    job = Job.objects.create(kind="run", location=location, run=run, branch="main")
    data = {"node": "n", "id": unit.unit_id, "error": "not yet", "waited": 0.25}
    JobEvent.objects.create(job=job, seq=1, kind="node_retried", at=unit.start, data=data)
    JobEvent.objects.create(job=job, seq=2, kind="node_retried", at=unit.start, data={**data, "id": "gone"})
    html = page(reader, run)
    assert html.count("bar-call is-failed is-attempt") == 1 and "2 attempts" in html


@pytest.mark.parametrize("version", ["lg02_76", "lg06", "lg12"])
def test_a_thread_that_failed_elsewhere_shows_the_attempt_that_its_rows_record(
    tmp_path: Path, settings: Any, reader: Client, version: str
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of(f"langgraph/{version}.db", tmp_path))
    run = location.runs.get(key="fan-recovered")
    html = page(reader, run)
    assert html.count("bar-call is-failed is-attempt") == 1 and "2 attempts" in html
    (attempt,) = (span for span in branch_spans(run, "").spans if span.kind == "attempt")
    assert attempt.error and attempt.is_estimated
    selected = reader.get(reverse("run-timeline", args=[run.uid]), {"span": attempt.id}).content.decode()
    assert escape(attempt.error)[:40] in selected


NEXT_TURN = """
    INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, replace(checkpoint_id, '1f1e', '1f1f'),
        checkpoint_id, type, checkpoint, json_set(metadata, '$.source', 'input')
    FROM checkpoints WHERE thread_id = 'fan-failed' AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""


def test_a_thread_that_went_on_with_another_turn_shows_what_had_failed(tmp_path: Path, settings: Any) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    store = copy_of("langgraph/lg12.db", tmp_path)
    with closing(sqlite3.connect(store)) as database, database:
        assert database.execute(NEXT_TURN).rowcount == 1
    run = opened(imported_location(store), "fan-failed")
    found = {
        span.kind: span
        for span in branch_spans(run, "").spans
        if span.status == "failed" or span.kind == "gap"
    }
    assert found["unit"].error and found["gap"].start == found["unit"].start


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("run", "queued", "The job has not started yet."),
        ("fork", "running", "The job has started, but no unit of work has."),
        ("resume", "failed", "The job ended before a unit of work started."),
        ("fork", "cancelled", "The job ended before a unit of work started."),
        ("score", "failed", "A job of this kind runs no unit of work"),
        ("fork", "succeeded", "it ended before it ran, or old events were removed"),
    ],
)
def test_a_job_without_spans_says_why(
    reader: Client, crew_run: Run, kind: str, status: str, reason: str
) -> None:
    job = Job.objects.create(kind=kind, location=crew_run.location, run=crew_run, branch="main")
    if status != "queued":
        Job.objects.filter(pk=job.pk).update(status=status, started_at=job.created_at)
    if status == "succeeded":
        Job.objects.filter(pk=job.pk).update(ended_at=job.created_at)
    if status in ("failed", "cancelled"):
        events_of(job, ("started", {}))
        error = UserMessage("runner.entry_point_malformed", {"entry_point": "<b>crew</b>"})
        Job.objects.filter(pk=job.pk).update(error=error, ended_at=job.created_at)
    html = reader.get(reverse("job-timeline", args=[job.pk])).content.decode()
    assert reason in html
    has_ended = status in ("failed", "cancelled")
    assert ("must have the form module:name" in html) == has_ended and "<b>crew</b>" not in html


def test_a_branch_without_times_shows_the_job_that_failed(reader: Client, crew_run: Run) -> None:
    job = Job.objects.create(kind="resume", location=crew_run.location, run=crew_run, branch="main")
    error = UserMessage("runner.entry_point_malformed", {"entry_point": "crew"})
    Job.objects.filter(pk=job.pk).update(status="failed", error=error, ended_at=job.created_at)
    assert "must have the form" not in page(reader, crew_run, branch="main")
    crew_run.checkpoints.update(state=Checkpoint.State.NO_COPY)
    html = page(reader, crew_run, branch="main")
    assert "The copies of the checkpoints of this branch were deleted." in html
    assert "must have the form module:name" in html and str(job.pk) in html
