"""A run writes keys in dozens of forms everywhere: none is stored, shown, sent or logged."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from django.core import serializers
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.file_bytes import bytes_of
from tests.jobs.conftest import FAKE_RUNNERS, MakeJob
from tests.redaction.canaries import TEXTS, TOKENS
from tests.settings import SERVER
from tests.waiting import wait_until
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.preflight import preflight_checkpoint, run_check
from viewer.host.project_secrets import redact_jobs_again
from viewer.launching.start import send_answer
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project, Run
from viewer.web.live.feeds import JobFeed

OWN = "own-CANARY-of-this-project"
# What each of these keys would be known by.
MARKS = ("CANARY", "CAN@RY", "Q0FOQVJZ", "dozjgNryP4J3", "IIEpAIBAA", "canary7")


@pytest.fixture
def project(project: Project) -> Project:
    """Return a project whose environment has a key that resembles no known format."""
    folder = Path(project.folder)
    texts = [*TOKENS.values(), *(text for text, _ in TEXTS.values()), f"it is {OWN}"]
    values = {"api_key": "CANARY77", "headers": {"x-team": "CANARY78"}, "nested": json.dumps({"token": OWN})}
    (folder / "keys.json").write_text(json.dumps({"texts": texts, "values": values}))
    (folder / "keys.env").write_text(f"TEAM_SECRET={OWN}\n")
    project.environment_file = str(folder / "keys.env")
    project.save()
    return project


def found_in(text: str) -> list[str]:
    return [mark for mark in MARKS if mark in text]


def in_database() -> list[str]:
    """Return the bytes of the keys found in the database files, or in all rows of PostgreSQL."""
    if SERVER:
        return found_in("".join(all_rows()))
    path = Path(str(connection.settings_dict["NAME"]))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytes_of(path.parent.glob(f"{path.name}*"))
    return [mark for mark in MARKS if mark.encode() in data]


def all_rows() -> Iterator[str]:
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT one::text FROM {connection.ops.quote_name(table)} AS one")
            yield from (text for (text,) in cursor)


def test_no_key_in_the_output_of_a_run_is_stored_shown_or_sent(
    make_job: MakeJob, reader: Client, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    job = make_job("output/reports_keys.py")

    def follow() -> None:
        ensure_finished(job)
        connection.close()

    follower = Thread(target=follow)
    follower.start()
    wait_until(lambda: job.questions.exists())
    pages = ["jobs", "inbox", "inbox-count"]
    shown = {name: reader.get(reverse(name)).content.decode() for name in pages}
    shown["question"] = reader.get(reverse("question", args=[job.pk, 1])).content.decode()
    call_command("checkpoints", "answer", "--json")
    call_command("checkpoints", "answer")
    assert send_answer(job.questions.get(), f"{OWN} and {TOKENS['openai']}", None)
    follower.join(60)
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED and job.events.count() > 9
    shown["job"] = reader.get(job.get_absolute_url()).content.decode()
    shown["socket"] = JobFeed(pk=job.pk, after=0, whole=True).next_message() or ""
    shown["log"] = (job.folder / "log.txt").read_text()
    shown["printed"] = "".join(capfd.readouterr()) + caplog.text
    assert {name: found for name, text in shown.items() if (found := found_in(text))} == {}
    assert all("[redacted]" in shown[name] for name in ("question", "job", "socket", "log", "printed"))
    assert [path.name for path in job.folder.iterdir() if path.stat().st_size] == ["log.txt"]
    assert in_database() == []


@pytest.mark.parametrize("another_job_starts", [False, True])
def test_a_secret_that_becomes_known_during_a_run_is_redacted_in_what_it_has_written(
    make_job: MakeJob, project: Project, another_job_starts: bool
) -> None:
    environment = Path(project.environment_file)
    environment.write_text("TEAM_SECRET=another-secret-77\n")
    job = make_job("output/reports_keys.py")

    def follow() -> None:
        ensure_finished(job)
        connection.close()

    follower = Thread(target=follow)
    follower.start()
    wait_until(lambda: job.questions.exists())
    environment.write_text(f"TEAM_SECRET={OWN}\n")
    if another_job_starts:
        redact_jobs_again(Project.objects.get(), for_rules=False)
        assert OWN not in str([*job.events.exclude(kind="question").values_list("data", flat=True)])
    assert send_answer(job.questions.get(), "go on", None)
    follower.join(60)
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED
    log = (job.folder / "log.txt").read_text()
    assert OWN not in log and "[redacted]" in log
    rows = [*Job.objects.all(), *job.events.all(), *job.questions.all()]
    assert OWN not in str(serializers.serialize("json", rows))


def test_no_key_in_a_preflight_report_is_stored(
    location: Location, project: Project, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "output/reports_keys.py"}
    run = Run.objects.create(location=location, key="r", entity="crew", name="news")
    checkpoint = Checkpoint.objects.create(
        location=location, run=run, source_key="main/a.json", checkpoint_id="a", branch="main", entity="crew"
    )
    check = preflight_checkpoint(checkpoint, project, "crew:build")
    wait_until(lambda: PreflightCheck.objects.get(pk=check.pk).has_ended)
    report = json.dumps(PreflightCheck.objects.get(pk=check.pk).report)
    assert "[redacted]" in report and found_in(report) == []
    wait_until(lambda: not check.folder.exists())
    # One whose child fails says why, without the keys.
    (Path(project.folder) / "keys.json").write_text(json.dumps({"texts": [OWN]}) + OWN)
    failed = PreflightCheck.objects.create(checkpoint=checkpoint, project=project, fingerprint="other")
    run_check(failed)
    failed.refresh_from_db()
    assert failed.status == PreflightCheck.Status.FAILED and found_in(str(failed.error)) == []
    assert in_database() == []
