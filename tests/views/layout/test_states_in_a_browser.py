"""axe finds no faults on the pages of runs and jobs in any of their states, in either theme."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import branched_run
from tests.views.axe import faults_of
from tests.views.browsing import Open, opening
from tests.views.forking import CREW, FLOW, stored
from viewer.models import Checkpoint, Job, JobEvent, Location, Problem, Question, Sweep

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TABS = ("output", "overview", "tasks", "inputs", "state", "events", "raw")


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


def test_a_run_in_each_state(open_page: Open, location: Location) -> None:
    branched = branched_run(("main", "year-2030", "fork/20261120T232827_877b0992_a-name-that-goes-on"), 4)
    branched.checkpoints.filter(row=3).update(state=Checkpoint.State.PRUNED)
    branched.checkpoints.filter(row=4).update(state=Checkpoint.State.BROKEN)
    branched.checkpoints.filter(row=5).update(trigger="task_failed", parent_link="inferred")
    Job.objects.create(
        kind="fork", location=branched.location, run=branched, branch="year-2030", status=Job.Status.RUNNING
    )
    run = branched.get_absolute_url()
    states = ("view=graph", "only=failed", "branch=year-2030", "branch=none", "at=nothing", "pruned=shown")
    pages = {state: f"{run}?{state}" for state in states}
    for entity in (CREW, FLOW):
        checkpoint = stored(location, entity)
        at = f"{checkpoint.run.get_absolute_url()}?at={checkpoint.checkpoint_id}"
        pages |= {f"{entity['entity_type']} {tab}": f"{at}&tab={tab}" for tab in TABS}
        pages[f"{entity['entity_type']} as source"] = f"{at}&tab=tasks&as=source"
    assert faults_of(open_page("/"), pages) == ""


def test_a_location_with_faults(open_page: Open, location: Location) -> None:
    stored(location, CREW)
    Problem.objects.create(location=location, source_key="x.json", reason="Truncated JSON.", kind="broken")
    Location.objects.update(read_error="It is not there.")
    pages = {"location": location.get_absolute_url(), "locations": reverse("locations")}
    assert faults_of(open_page("/"), pages) == ""


def test_a_job_in_each_state(open_page: Open, checkpoint: Checkpoint) -> None:
    pages: dict[str, str] = {}
    plan = [
        {"unit": "a", "title": "Research", "agent": "Researcher", "action": "kept", "reason": "kept"},
        {"unit": "b", "title": "Write", "agent": "Writer", "action": "runs", "reason": "unfinished"},
    ]
    group = Sweep.objects.create(name="tone", checkpoint=checkpoint)
    for status in Job.Status:
        job = Job.objects.create(
            kind=Job.Kind.FORK,
            location=checkpoint.location,
            run=checkpoint.run,
            checkpoint=checkpoint,
            project=checkpoint.location.project,
            branch=f"branch-{status}",
            status=status,
            plan=plan,
            sweep=group,
            started_at=None if status == Job.Status.QUEUED else timezone.now(),
            error="RuntimeError: no model" if status == Job.Status.FAILED else "",
            traceback="Traceback" if status == Job.Status.FAILED else "",
            log_end="It printed this." if status == Job.Status.FAILED else "",
            result="The article." if status == Job.Status.SUCCEEDED else "",
        )
        for seq, kind in enumerate(("task_started", "text", "checkpoint", "task_completed"), 1):
            data = {"task": "b", "agent": "Writer", "text": "words", "id": checkpoint.checkpoint_id}
            JobEvent.objects.create(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)
        pages[status] = job.get_absolute_url()
        if status == Job.Status.RUNNING:
            Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
            chosen = {"output": "A text.", "choices": ["yes", "no"]}
            Question.objects.create(job=job, number=2, kind="human_input", prompt="Good?", context=chosen)
            answered = {"answer": "This.", "answered_at": timezone.now(), "context": {"output": "A text."}}
            Question.objects.create(job=job, number=3, kind="text_input", prompt="Which?", **answered)
            pages |= {
                f"question {number}": reverse("question", args=[job.pk, number]) for number in (1, 2, 3)
            }
    pages |= {name: reverse(name) for name in ("jobs", "inbox")}
    pages |= {"run": checkpoint.run.get_absolute_url(), "sweep": group.get_absolute_url()}
    assert faults_of(open_page("/"), pages) == ""
