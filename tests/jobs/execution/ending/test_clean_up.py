"""However a job ends, only its redacted log is left on disk."""

from pathlib import Path

import pytest
from django.db import connection

from tests.file_bytes import bytes_of
from tests.jobs.conftest import MakeJob, followed
from tests.waiting import wait_until
from viewer.host.jobs.events import clean_up, deliver
from viewer.host.jobs.following import ensure_finished
from viewer.launching.start import send_answer
from viewer.models import Job, Project, Question

CANARY = "sk-canary0123456789abcdefghij"


def files_in(folder: Path) -> dict[str, str]:
    """Return the files in this folder, except empty locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_the_checkpoint_copy_of_a_killed_runner_is_deleted(make_job: MakeJob) -> None:
    job = make_job("checkpoints/leaves_a_copy.py")
    ensure_finished(job)
    assert job.status == "interrupted"
    assert files_in(job.folder) == {"log.txt": "[redacted]\n"}


def test_the_users_input_is_deleted_if_the_job_cannot_start(make_job: MakeJob, project: Project) -> None:
    job = make_job()
    Job.objects.filter(pk=job.pk).update(
        request={"inputs": {"word": CANARY}, "checkpoint": {"stored": True, "id": "gone", "source": ""}}
    )
    job.refresh_from_db()
    ensure_finished(job)
    assert (job.status, job.request["inputs"]) == ("failed", {"word": None})
    assert "its location was removed" in str(job.error)
    assert files_in(job.folder) == {}


def test_an_answer_at_the_end_of_a_job_is_deleted(make_job: MakeJob) -> None:
    job = make_job()
    job.folder.mkdir(parents=True)
    question = Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    early = Question.objects.get(pk=question.pk)
    assert early.record_answer(CANARY, None)
    job.end(Job.Status.CANCELLED)
    clean_up(job, str)
    # An answer given in time is delivered now, and a later one is refused.
    deliver(early)
    assert not send_answer(question, CANARY, None)
    assert files_in(job.folder) == {}


def test_the_request_of_a_deleted_job_is_deleted(make_job: MakeJob) -> None:
    job = make_job("hangs.py")
    folder = job.folder
    with followed(job):
        wait_until(lambda: job.events.exists())
        assert (folder / "request.json").exists()
        Job.objects.filter(pk=job.pk).delete()
    assert set(files_in(folder)) <= {"log.txt"}


@pytest.mark.parametrize("content", [b"OPENAI_API_KEY=\xff\xfe\n", None])
def test_a_job_is_followed_although_its_environment_file_breaks(
    make_job: MakeJob, project: Project, content: bytes | None
) -> None:
    job = make_job("succeeds.py")
    file = Path(project.folder) / "keys.env"
    project.environment_file = str(file)
    project.save()
    job.refresh_from_db()
    file.write_bytes(content) if content else file.mkdir()
    ensure_finished(job)
    # It is refused with a message before anything runs, and its file is not quoted.
    assert job.status == "failed" and "environment file" in str(job.error) and "\\xff" not in str(job.error)
    # A job that was running when it broke is followed to its end.
    other = make_job("succeeds.py")
    Job.objects.filter(pk=other.pk).update(status=Job.Status.STARTING)
    ensure_finished(Job.objects.get(pk=other.pk))
    assert Job.objects.get(pk=other.pk).status == "interrupted"


@pytest.mark.sqlite
def test_the_users_input_is_not_left_in_free_database_pages(make_job: MakeJob) -> None:
    path = Path(str(connection.settings_dict["NAME"]))
    job = make_job()
    # Long enough for whole pages, which are free afterwards.
    Job.objects.filter(pk=job.pk).update(request={"inputs": {"word": f"{CANARY} " * 4000}})
    flush_to(path)
    assert CANARY.encode() in bytes_of([path])
    job.refresh_from_db()
    job.end(Job.Status.CANCELLED)
    flush_to(path)
    assert CANARY.encode() not in bytes_of([path])


def flush_to(path: Path) -> None:
    """Write all pages of the log to the database file."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert cursor.fetchone()[0] == 0
