"""The user's input of an ended job is in no byte of the database or its write-ahead log."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from tests.file_bytes import bytes_of
from tests.jobs.conftest import MakeJob, finished
from viewer.data_folder.database_file import clear_if_pending
from viewer.launching.start import request_cancel
from viewer.models import Job

pytestmark = pytest.mark.sqlite
TYPED = "typed-canary-0123456789"


def database() -> Path:
    return Path(str(connection.settings_dict["NAME"]))


def files_with_input() -> set[str]:
    """Return the names of the database files that contain the typed text."""
    files = [path for path in database().parent.glob(f"{database().name}*") if path.is_file()]
    return {path.name.removeprefix(database().name) for path in files if TYPED.encode() in bytes_of([path])}


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    job = make_job()
    job.request = {"inputs": {"api_key": TYPED}, "kind": "fork"}
    job.save()
    assert files_with_input() == {"-wal"}
    return job


def test_no_user_input_is_left_after_a_job(job: Job) -> None:
    finished(job)
    assert job.has_ended and files_with_input() == set()


def test_no_user_input_is_left_after_a_queued_job_is_cancelled(job: Job) -> None:
    assert request_cancel(job) and files_with_input() == set()


def test_clearing_the_log_is_postponed_while_a_reader_is_active(job: Job) -> None:
    with closing(sqlite3.connect(database())) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM viewer_job").fetchone()
        assert request_cancel(job) and files_with_input() != set()
    clear_if_pending()
    assert files_with_input() == set()
