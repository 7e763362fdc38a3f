"""The outcome of a job for each behaviour of its runner. Every runner is a real program."""

import json
import signal
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, finished, followed, marks, status
from tests.waiting import wait_until
from viewer.host.jobs.files import MAX_LOG_BYTES, storage_of
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.processes import tree_of
from viewer.models import Job, Project


def test_a_successful_runner_records_every_event_once_and_its_result(make_job: MakeJob) -> None:
    job = finished(make_job("succeeds.py"))
    assert (job.status, job.result) == ("succeeded", "all done")
    events = list(job.events.values_list("seq", "kind"))
    assert [seq for seq, _ in events] == list(range(1, 11))
    assert events[0][1] == "started"
    assert events[-1][1] == "ended"
    assert job.log_end == "working\n"
    assert job.started_at
    assert job.ended_at
    assert job.process_id


def test_a_failing_runner_records_error_traceback_and_log_without_the_key(make_job: MakeJob) -> None:
    job = finished(make_job("errors/raises.py"))
    assert job.status == "failed"
    assert str(job.error).startswith("the tool has no file")
    assert "RuntimeError" in job.traceback
    assert "is what I was given" in job.log_end
    assert "sk-tiny" not in (job.folder / "log.txt").read_text()
    shown = "".join(
        [str(job.error), job.traceback, job.log_end, json.dumps([e.data for e in job.events.all()])]
    )
    assert "sk-tiny" not in shown


def test_a_runner_that_exits_without_an_event_fails_with_its_exit_status(make_job: MakeJob) -> None:
    job = finished(make_job("exits.py"))
    assert job.status == "failed"
    assert "exited with status 3" in str(job.error)
    assert job.log_end == "about to leave\n"


def test_a_runner_that_cannot_start_fails_and_logs_the_reason(make_job: MakeJob) -> None:
    job = finished(make_job("errors/dies_at_once.py"))
    assert job.status == "failed"
    assert "exited with status 1" in str(job.error)
    assert "No module named 'crewai'" in job.log_end


def test_noise_in_the_log_and_the_spool_is_harmless(make_job: MakeJob) -> None:
    job = finished(make_job("output/noise.py"))
    assert (job.status, job.result) == ("succeeded", "in spite of the ? noise")
    kinds = list(job.events.values_list("kind", flat=True))
    assert kinds == ["started", "text", "text", "ended"]
    assert job.events.get(seq=2).data["text"] == "half a pair ?, a number"
    assert "bytes that are not text" in job.log_end


def test_an_endless_log_does_not_fill_the_disk(make_job: MakeJob) -> None:
    job = finished(make_job("output/prints_without_end.py"))
    assert (job.status, job.result) == ("succeeded", "printed")
    log = (job.folder / "log.txt").read_text()
    assert len(log) < 2 * MAX_LOG_BYTES
    assert log.count("Earlier output was cut") == 1
    assert log.endswith("the last line\n")
    assert job.log_end.endswith("the last line\n")


def test_a_runner_that_does_not_exit_after_its_end_is_killed_and_its_outcome_counts(
    make_job: MakeJob, settings: Settings
) -> None:
    job = make_job("lingers.py")
    settings.CANCEL_GRACE_SECONDS = 1
    finished(job)
    assert (job.status, job.result) == ("succeeded", "done, but still here")
    assert not tree_of(storage_of(job))


@pytest.mark.parametrize(
    ("number", "ended_as"),
    [(signal.SIGKILL, "interrupted"), (signal.SIGTERM, "interrupted"), (signal.SIGSEGV, "failed")],
)
def test_a_runner_ended_by_a_signal_is_not_started_again(
    make_job: MakeJob, project: Project, number: signal.Signals, ended_as: str
) -> None:
    job = make_job("hangs.py")
    with followed(job):
        wait_until(lambda: status(job) == "running")
        for process in tree_of(storage_of(job)):
            process.send_signal(number)
    assert job.status == ended_as
    assert number.name in str(job.error)
    ensure_finished(job)
    assert marks(project) == [str(job.pk)]


def test_a_runner_has_its_own_session_and_a_small_environment(
    make_job: MakeJob, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(project.folder) / ".env"
    file.write_text("OPENAI_API_KEY=from-the-project\nCREWAI_TRACING_ENABLED=true\n")
    project.environment_file = str(file)
    project.save()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-server")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.settings")
    job = finished(make_job("shows_environment.py"))
    reported = json.loads((Path(project.folder) / "reported.json").read_text())
    environment = reported["environment"]
    assert reported["session"]
    assert reported["folder"] == project.folder
    assert environment["OPENAI_API_KEY"] == "from-the-project"
    assert environment["FORKLINE_JOB"] == str(job.pk)
    assert environment["CREWAI_TRACING_ENABLED"] == "false"
    assert environment["OTEL_SDK_DISABLED"] == "true"
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))
    assert not {"ANTHROPIC_API_KEY", "DJANGO_SETTINGS_MODULE", "DATA_DIR"} & environment.keys()
    assert reported["request"]["job"] == str(job.pk)
    assert reported["request"]["folder"] == project.folder


def test_a_job_folder_is_private(make_job: MakeJob) -> None:
    job = finished(make_job("succeeds.py"))
    assert job.folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in job.folder.iterdir()}
    # The request and the output are in the rows, without secrets.
    assert modes == dict.fromkeys(["follower.lock", "lock", "log.txt"], 0o600)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"confirmed_at": None}, "Confirm the project"),
        ({"interpreter": "/nowhere/python"}, "interpreter does not exist: /nowhere/python"),
        ({"interpreter": "bin/python"}, "interpreter does not exist: bin/python"),
        ({"folder": "/nowhere"}, "folder does not exist"),
        ({"environment_file": "/nowhere/.env"}, "environment file does not exist"),
    ],
)
def test_a_project_that_cannot_run_fails_the_job_with_the_reason(
    make_job: MakeJob, project: Project, change: dict[str, str | None], text: str
) -> None:
    Project.objects.filter(pk=project.pk).update(**change)
    job = finished(Job.objects.get(pk=make_job("succeeds.py").pk))
    assert job.status == "failed"
    assert text in str(job.error)
    assert marks(project) == []
