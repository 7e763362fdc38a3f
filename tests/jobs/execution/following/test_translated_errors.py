"""Errors of jobs in the language of the reader."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.jobs.conftest import MakeJob
from tests.messages.catalogue import write_catalogue
from viewer.host.jobs.events import redacted_data
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.processes import outcome_of
from viewer.host.jobs.spool import SpoolEvent
from viewer.messages.message import UserMessage, message_from, plain_text, redacted_message
from viewer.models import Job, JobEvent, Project
from viewer.records.accounts import teammate

GERMAN = {
    "The model %(model)r cannot be used here: %(kind)s: %(error)s": (
        "Das Modell %(model)r geht hier nicht: %(error)s"
    ),
    "The prompt cache was not warmed up: %(kind)s: %(error)s": "Nicht vorgewärmt: %(error)s",
    "Stopped at the project's limit of %(amount)s a day.": "Halt beim Tageslimit von %(amount)s.",
    "The run's program exited with status %(status)d before it reported a result.": (
        "Das Programm endete mit %(status)d."
    ),
    "Nobody has allowed the code of “%(name)s” to run yet. Confirm the project first.": (
        "„%(name)s“ ist nicht bestätigt."
    ),
}
KEY = "sk-proj-0123456789abcdefghijklmnop"


@pytest.fixture(autouse=True)
def german(tmp_path: Path, settings: Settings) -> None:
    settings.LOCALE_PATHS = [write_catalogue(tmp_path / "locale", "de", GERMAN)]


@pytest.fixture
def reader(client: Client, transactional_db: None) -> Client:
    client.force_login(teammate("reader"))
    return client


def shown(reader: Client, job: Job, language: str) -> str:
    ensure_finished(job)
    return reader.get(job.get_absolute_url(), headers={"Accept-Language": language}).content.decode()


def test_a_refusal_by_the_runner_is_translated_with_its_values(
    reader: Client, make_job: MakeJob, project: Project
) -> None:
    (Path(project.folder) / "why.txt").write_text("50 %s <off>")
    job = make_job("errors/refuses.py")
    assert "Das Modell &#x27;100%(x)s&#x27; geht hier nicht: 50 %s &lt;off&gt;" in shown(reader, job, "de")
    assert "The model &#x27;100%(x)s&#x27; cannot be used here" in shown(reader, job, "en")
    job.refresh_from_db()
    assert str(job.error) == "The model '100%(x)s' cannot be used here: ValueError: 50 %s <off>"


def test_a_warning_of_the_runner_is_translated_with_its_values(
    reader: Client, make_job: MakeJob, project: Project
) -> None:
    (Path(project.folder) / "why.txt").write_text("50 %s <off>")
    job = make_job("errors/refuses.py")
    assert "Nicht vorgewärmt: 50 %s &lt;off&gt;" in shown(reader, job, "de")
    assert "The prompt cache was not warmed up: OSError: 50 %s &lt;off&gt;" in shown(reader, job, "en")


def test_the_limit_that_stopped_a_run_is_translated_with_its_numbers(
    reader: Client, make_job: MakeJob, project: Project
) -> None:
    project.change_limits({"seconds": 4000})
    job = make_job("succeeds.py")
    Job.objects.filter(pk=job.pk).update(
        status="cancelled",
        limit_hit={"whose": "project", "measure": "seconds", "max_amount": 4000},
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )
    assert "Halt beim Tageslimit von 4.000" in shown(reader, job, "de")
    assert "Stopped at the project&#x27;s limit of 4,000 seconds a day." in shown(reader, job, "en")


def test_an_old_warning_without_a_message_is_shown_as_stored(reader: Client, make_job: MakeJob) -> None:
    job = make_job("exits.py")
    JobEvent.objects.create(job=job, seq=900, kind="warning", at=timezone.now(), data={"message": "50%."})
    assert "50%." in shown(reader, job, "de")


def test_a_secret_that_only_the_whole_text_shows_is_hidden() -> None:
    message = UserMessage("crewai.cache_failed", {"kind": "password", "error": "hunter22"})

    def hide(value: object) -> object:
        return value.replace("password: hunter22", "[redacted]") if isinstance(value, str) else value

    data = {"message": message.as_data()}
    stored = redacted_data(SpoolEvent(seq=1, at=0.0, kind="warning", data=data), hide)
    assert message_from(stored["message"]) == redacted_message(message, hide)
    assert str(redacted_message(message, hide)) == "The prompt cache was not warmed up: [redacted]"


def test_a_key_in_a_value_is_redacted_in_every_language(
    reader: Client, make_job: MakeJob, project: Project
) -> None:
    (Path(project.folder) / "why.txt").write_text(f"no such key: {KEY}")
    job = make_job("errors/refuses.py")
    assert KEY not in shown(reader, job, "de") and KEY not in shown(reader, job, "en")
    job.refresh_from_db()
    assert KEY not in f"{job.error} {[event.data for event in job.events.all()]}"


def test_the_exit_of_a_runner_is_translated(reader: Client, make_job: MakeJob) -> None:
    assert "Das Programm endete mit 3." in shown(reader, make_job("exits.py"), "de")


def test_a_refused_start_is_translated(reader: Client, make_job: MakeJob, project: Project) -> None:
    Project.objects.update(confirmed_at=None)
    assert f"„{project.name}“ ist nicht bestätigt." in shown(reader, make_job(), "de")


def test_an_error_of_a_runner_of_the_version_before_is_its_text() -> None:
    last = {
        "status": "failed",
        "error": "It broke.",
        "words": {"text": "All is %(what)s.", "values": {"what": "well"}},
    }
    assert outcome_of(last, None, has_events=True, is_cancelled=False).error == plain_text("It broke.")
