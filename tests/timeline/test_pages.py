"""The pages of timelines."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.access.login_links import teammate
from viewer.models import Job, JobEvent, Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(tmp_path: Path, settings: Any) -> Run:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("1.15.30/json", tmp_path))
    return location.runs.get()


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(teammate("reader"))
    return client


def page(browser: Client, run: Run, **query: str) -> str:
    response = browser.get(reverse("run-timeline", args=[run.uid]), query)
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_timeline_shows_units_calls_costs_and_what_is_folded(browser: Client, run: Run) -> None:
    html = page(browser, run, branch="exp-a")
    assert html.count('class="bar-call is-model"') == 3
    assert "until the fork" in html and "without activity is folded" in html
    assert "Researcher on AI" in html and "gpt-4o-mini" in html and "$0.0000" in html


def test_a_selected_call_shows_its_prompt_answer_and_the_checkpoint_before(browser: Client, run: Run) -> None:
    html = page(browser, run, branch="main")
    selected = html.split("?branch=main&amp;span=")[2].split('"')[0]
    html = page(browser, run, branch="main", span=selected)
    assert "Prompt</h3>" in html and "Answer" in html
    assert "Open the checkpoint before it" in html
    assert "Fork before this task" not in html, "A reader cannot run."
    teammate("reader", "run")
    assert "Fork before this task" in page(browser, run, branch="main", span=selected)


def test_an_unknown_branch_and_span_show_the_newest_branch(browser: Client, run: Run) -> None:
    assert "Select a bar" in page(browser, run, branch="gone", span="gone", **{"from": "x", "to": "y"})


def test_hostile_names_are_only_text(tmp_path: Path, settings: Any, browser: Client) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.rglob("*.json"):
        path.write_text(path.read_text().replace("gpt-4o-mini", "<script>alert(1)</script>"))
    location = imported_location(folder)
    html = page(browser, location.runs.get())
    assert "<script>alert" not in html and "no price" in html


def test_a_job_shows_its_calls_with_a_failure_a_retry_and_a_question(browser: Client, run: Run) -> None:
    job = Job.objects.create(kind="run", location=run.location, run=run, branch="main")
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
    html = browser.get(address).content.decode()
    assert html.count("bar-call is-failed") == html.count("bar-call is-model") == 1
    assert html.count('class="bar-wait"') == 2 and "retry" in html and "waiting for a person" in html
    html = browser.get(address, {"span": "3"}).content.decode()
    assert "A draft." in html and "The prompt of this call is not recorded." in html
    assert "429 Too Many Requests" in browser.get(address, {"span": "1"}).content.decode()


def test_a_job_without_events_shows_a_notice(browser: Client, run: Run) -> None:
    job = Job.objects.create(kind="run", location=run.location)
    assert (
        "No times are recorded here yet."
        in browser.get(reverse("job-timeline", args=[job.pk])).content.decode()
    )
