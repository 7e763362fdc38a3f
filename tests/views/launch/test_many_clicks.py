"""Many people press the same button at the same moment: the job and its runner start once."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS, marks
from tests.views.forking import checked_new_run, filled, page
from viewer.host.jobs.following import ensure_finished
from viewer.models import Checkpoint, Job, Location, Question, Sweep

# Three times as many as at once: the later ones find what the first have made.
CLICKS = 48
AT_ONCE = 16
pytestmark = [pytest.mark.usefixtures("_tiny_runner", "check"), pytest.mark.postgresql]


@pytest.fixture
def _tiny_runner(transactional_db: None, location: Location, settings: Settings) -> Iterator[None]:
    """The jobs of the project run a tiny runner."""
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "succeeds.py"}
    assert location.project
    location.project.interpreter = sys.executable
    location.project.save()
    yield
    connection.close()


def clicked(person: User, address: str, form: dict[str, Any]) -> set[tuple[int, str]]:
    """Return the status and the redirect of each response to simultaneous clicks."""
    logged_in = Client()
    logged_in.force_login(person)
    session = logged_in.cookies[settings.SESSION_COOKIE_NAME].value

    def click(_: int) -> tuple[int, str]:
        browser = Client()
        browser.cookies[settings.SESSION_COOKIE_NAME] = session
        answer = browser.post(address, form)
        connection.close()
        return answer.status_code, answer.headers.get("Location", "")

    with ThreadPoolExecutor(AT_ONCE) as people:
        return set(people.map(click, range(CLICKS)))


def run_by_many() -> None:
    """Let several workers run each job at once, and once more after its end."""

    def run(pk: str) -> None:
        ensure_finished(Job.objects.get(pk=pk))
        connection.close()

    jobs = [str(pk) for pk in Job.objects.values_list("pk", flat=True)]
    for _again in range(2):
        with ThreadPoolExecutor(8) as workers:
            list(workers.map(run, jobs * 4))


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_one_launch_form_starts_one_runner(
    client: Client, person: User, checkpoint: Checkpoint, kind: str
) -> None:
    form = filled(client, checkpoint, kind)
    answers = clicked(person, page(checkpoint, kind), form)
    assert [status for status, _ in answers] == [302]
    job = Job.objects.get()
    run_by_many()
    assert job.project and marks(job.project) == [str(job.pk)]


def test_one_sweep_form_starts_each_variation_once(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    form = {"key": "11111111-2222-4333-8444-555555555555", "branch": "tone", "entry_point": "crew:build"}
    form["vary-input:topic"] = "tea\nmilk"
    answers = clicked(person, reverse("new-sweep", args=[checkpoint.pk]), form)
    assert answers == {(302, Sweep.objects.get().get_absolute_url())}
    jobs = {str(job.pk) for job in Job.objects.all()}
    assert len(jobs) == 2
    run_by_many()
    assert checkpoint.location.project and sorted(marks(checkpoint.location.project)) == sorted(jobs)


def test_a_missed_job_that_many_start_now_starts_once(person: User, checkpoint: Checkpoint) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=checkpoint.location,
        project=checkpoint.location.project,
        checkpoint=checkpoint,
        start_at=long_ago,
    )
    # It missed its start time, so no worker starts it.
    run_by_many()
    assert job.project and marks(job.project) == []
    answers = clicked(person, reverse("job-start", args=[job.pk]), {"start": "now"})
    assert answers == {(302, job.get_absolute_url())}
    run_by_many()
    assert marks(job.project) == [str(job.pk)]


def test_one_new_run_form_starts_one_runner(
    client: Client, person: User, checkpoint: Checkpoint, settings: Settings
) -> None:
    project = checkpoint.location.project
    assert project
    folder = Path(project.folder)
    settings.CHECKPOINT_ROOTS = [folder]
    checked_new_run(project, "crew:build")
    address = reverse("new-run", args=[checkpoint.location.uid])
    # At a location created with the run.
    key = "11111111-2222-4333-8444-555555555555"
    form = {"key": key, "entry_point": "crew:build", "new_location": "new/place"}
    answers = clicked(person, address, form)
    job = Job.objects.get()
    assert answers == {(302, job.get_absolute_url())}
    assert Location.objects.count() == 2 and job.location.path == str(folder / "new" / "place")
    run_by_many()
    assert marks(project) == [str(job.pk)]


def test_only_the_first_of_many_answers_counts(person: User, checkpoint: Checkpoint) -> None:
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=checkpoint.location, project=checkpoint.location.project
    )
    job.folder.mkdir(parents=True)
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    clicked(person, reverse("question-answer", args=[job.pk, 1]), {"text": "this"})
    assert Question.objects.get().answered_by == person
    assert [path.name for path in Path(job.folder).iterdir()] == ["answer-1.json"]


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_of_several_forms_for_one_branch_one_starts_and_the_others_are_refused(
    client: Client, person: User, checkpoint: Checkpoint, kind: str
) -> None:
    form = filled(client, checkpoint, kind, branch="what-if")
    forms = [form | {"key": str(uuid4())} for _ in range(12)]

    def send(one: dict[str, Any]) -> tuple[int, str]:
        browser = Client()
        browser.force_login(person)
        answer = browser.post(page(checkpoint, kind), one)
        connection.close()
        return answer.status_code, answer.content.decode()

    with ThreadPoolExecutor(AT_ONCE) as people:
        answers = list(people.map(send, forms))
    assert Job.objects.count() == 1
    assert [status for status, _ in answers].count(302) == 1
    message = "already exists" if kind == "fork" else "Another job writes to branch"
    assert all(message in text for status, text in answers if status == 422)
