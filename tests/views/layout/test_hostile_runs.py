"""Script in the reports of runs and preflight checks and in chosen names stays text on every page."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.views.forking import CREW, checked, page
from viewer.models import Checkpoint, Job, JobEvent, Question, Sweep
from viewer.presentation.jobs.events import LABELS
from viewer.web.live.feeds import JobFeed

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
OPENINGS = ("<script>alert", "<img src=x", "<svg/onload", "\"'><")


def markup_in(text: str) -> list[str]:
    return [opening for opening in OPENINGS if opening in text]


@pytest.fixture
def entity() -> dict[str, Any]:
    return {**CREW, "name": SCRIPT, "agents": [{"id": "a", "role": SCRIPT, "llm": {"model": SCRIPT}}]}


@pytest.fixture
def job(checkpoint: Checkpoint) -> Job:
    group = Sweep.objects.create(name=SCRIPT, checkpoint=checkpoint, limits={"tokens": 5})
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=checkpoint.location.project,
        branch=SCRIPT,
        sweep=group,
        variation=SCRIPT,
        status=Job.Status.FAILED,
        limit_hit={"whose": SCRIPT, "measure": SCRIPT, "max_amount": SCRIPT},
        result=SCRIPT,
        error=SCRIPT,
        traceback=SCRIPT,
        log_end=SCRIPT,
        plan=[
            {"unit": "1", "position": 1, "title": SCRIPT, "agent": SCRIPT, "action": "runs", "why": SCRIPT}
        ],
        request={"entry_point": SCRIPT, "name": SCRIPT, "options": {"models": {SCRIPT: SCRIPT}}},
    )
    named = ("message", "task", "agent", "title", "output", "error", "method", "model", "tool", "arguments")
    data: dict[str, Any] = dict.fromkeys(
        (*named, "text", "prompt", "words", "whose", "measure", "max_amount"), SCRIPT
    )
    data |= {"number": 1, "position": 1, "id": SCRIPT, "agents": [SCRIPT]}
    for seq, kind in enumerate((*LABELS, "warning", "text", "no such kind"), 1):
        JobEvent.objects.create(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)
    context = {**dict.fromkeys(("output", "agent", "method", "empty_means"), SCRIPT), "choices": [SCRIPT]}
    values: dict[str, Any] = {"job": job, "prompt": SCRIPT, "context": context, "kind": "human_feedback"}
    Question.objects.create(number=1, **values)
    Question.objects.create(number=2, answer=SCRIPT, answered_at=timezone.now(), **values)
    Question.objects.create(number=3, answer="", answered_at=timezone.now(), **values)
    return job


def test_no_script_of_a_run_becomes_markup(runner: Client, job: Job) -> None:
    assert job.run and job.sweep
    addresses = [
        *(reverse(name) for name in ("jobs", "jobs-waiting", "inbox", "inbox-count")),
        *(reverse("question", args=[job.pk, number]) for number in (1, 2, 3)),
        job.get_absolute_url(),
        f"{job.run.get_absolute_url()}?job={job.pk}",
        job.sweep.get_absolute_url(),
    ]
    pages = {address: runner.get(address) for address in addresses}
    assert {address: answer.status_code for address, answer in pages.items()} == dict.fromkeys(addresses, 200)
    texts = {address: answer.content.decode() for address, answer in pages.items()}
    # Its rows are data, which the page sets as text.
    texts["socket"] = json.loads(JobFeed(pk=job.pk, after=0, whole=True).next_message() or "")["html"]
    assert {address: found for address, text in texts.items() if (found := markup_in(text))} == {}
    assert all("&lt;script&gt;" in texts[address] for address in (job.get_absolute_url(), "socket"))
    # Also while it waits to start.
    Job.objects.update(status=Job.Status.QUEUED, start_at=timezone.now() + timedelta(hours=1))
    for address in (*addresses, reverse("job-wait", args=[job.pk])):
        assert markup_in(runner.get(address).content.decode()) == [], address


def test_no_script_of_a_preflight_check_becomes_markup(runner: Client, checkpoint: Checkpoint) -> None:
    fates = ("lost", "project", "restored")
    question = {"kind": "task", "saved": SCRIPT, "position": 1, "title": SCRIPT, "reason": SCRIPT}
    checked(
        checkpoint,
        components=[
            {"what": SCRIPT, "name": SCRIPT, "task": 1, "agent": SCRIPT, "fate": fate} for fate in fates
        ],
        questions=[{**question, "choices": [[SCRIPT, SCRIPT]]}],
        blocks=[SCRIPT],
        notes=[{"what": "unwritten", "detail": SCRIPT}, {"what": SCRIPT, "detail": SCRIPT}],
        imports=[SCRIPT],
        engine_version=SCRIPT,
        python_version=SCRIPT,
        checkpoint_version=SCRIPT,
    )
    for name in ("fork", "resume", "new-sweep"):
        text = runner.get(page(checkpoint, name)).content.decode()
        assert "&lt;script&gt;" in text and markup_in(text) == [], name
        typed = {"branch": SCRIPT, "entry_point": "crew:build", "vary-input:topic": SCRIPT, "key": SCRIPT}
        typed |= {
            f"vary-model:{SCRIPT}": SCRIPT,
            "model": SCRIPT,
            f"model:{SCRIPT}": SCRIPT,
            "start_at": SCRIPT,
        }
        typed |= {
            "limit_tokens": SCRIPT,
            "max_checkpoints": SCRIPT,
            "checkpoint_events": SCRIPT,
            "start": "later",
        }
        answer = runner.post(page(checkpoint, name), typed)
        assert answer.status_code == 422 and markup_in(answer.content.decode()) == [], name
    assert not Job.objects.exists()
