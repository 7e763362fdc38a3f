"""A disk that fills while a job runs: the job says which, the log says it once, and no other job starts."""

import errno
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection
from django.test import Client
from pytest_django import Settings

from checkpoint_site.logs import REPEATED_SECONDS, BriefFailures
from tests.jobs.conftest import MakeJob, finished, marks, status
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.cli.running import run_here
from viewer.data_folder.failures import DataFolderFailure
from viewer.host.jobs import events
from viewer.host.jobs.events import redactor_of
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import FollowedJob, ensure_finished, store_new_events
from viewer.host.jobs.processes import LimitEnforcer
from viewer.host.jobs.spool import Spool
from viewer.messages.translation import translate
from viewer.models import Job, Project
from viewer.presentation.jobs.status import wait_of
from viewer.records.hosts import next_job

MORE_PAGES = 1_000_000


@pytest.mark.parametrize("full_at", ["started", "task_started", "task_completed"])
def test_a_run_whose_spool_has_no_space_is_stopped_and_names_the_disk(
    make_job: MakeJob, project: Project, full_at: str
) -> None:
    job = make_job("errors/fills_the_spool.py")
    folder = Path(project.folder)
    (folder / "full_at").write_text(full_at)
    finished(job)
    assert (job.status, (folder / "interrupted").exists()) == ("failed", True)
    assert f"no space is left on the disk of {job.folder}" in translate(job.error)
    assert [one.name for one in job.folder.glob("reserved*")] == []


def test_a_result_that_has_no_space_in_the_spool_is_kept(make_job: MakeJob, project: Project) -> None:
    job = make_job("errors/fills_the_spool.py")
    Path(project.folder, "full_at").write_text("ended")
    finished(job)
    assert (job.status, job.error) == ("succeeded", None)
    assert job.result.startswith("all done all done")


@pytest.mark.sqlite
def test_a_full_database_delays_the_end_of_a_job_and_is_logged_once(
    make_job: MakeJob, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    job = make_job("output/reports_much.py")
    caplog.handler.addFilter(BriefFailures())
    caplog.set_level(logging.WARNING, "forkline.jobs")
    with connection.cursor() as cursor:
        # Rows that were deleted leave free pages.
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA page_count")
        (pages,) = cursor.fetchone()
    raw = connection.connection
    was_full: list[str] = []

    def make_full_and_free() -> None:
        wait_until(lambda: storage_of(job).read_events(0)[0])
        raw.execute(f"PRAGMA max_page_count = {pages}")
        Path(project.folder, "go").touch()
        wait_until(lambda: caplog.records)
        was_full.append(caplog.records[0].getMessage())
        raw.execute(f"PRAGMA max_page_count = {MORE_PAGES}")

    thread = Thread(target=make_full_and_free)
    thread.start()
    ensure_finished(job)
    thread.join()
    job.refresh_from_db()
    assert (job.status, marks(project)) == ("succeeded", [str(job.pk)])
    assert was_full and "No space is left on the disk of" in was_full[0]
    assert all(record.exc_info is None for record in caplog.records) and len(caplog.records) == 1


@contextmanager
def following(job: Job) -> Iterator[tuple[Spool, FollowedJob]]:
    """The spool of a job that runs, and the state of its follower."""
    storage = storage_of(job)
    storage.create()
    assert job.claim()
    with ThreadPoolExecutor(1) as importer:
        yield (
            Spool(job.folder),
            FollowedJob(job, storage, None, redactor_of(job.project), importer, 0, LimitEnforcer(job)),
        )


def full_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, times: int = 1) -> None:
    """Let the disk be full at the first calls of a function."""
    function, left = getattr(owner, name), list(range(times))

    def call(*arguments: Any, **named: Any) -> Any:
        if left:
            left.pop()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("full_at", ["mark_running", "record_process", "record_usage"])
def test_events_that_had_no_space_count_once_and_are_not_lost(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, full_at: str
) -> None:
    with following(make_job()) as (spool, state):
        full_once(monkeypatch, Job, full_at)
        spool.write("model_completed", tokens=10)
        spool.write("started", pid=os.getpid())
        spool.write("task_completed", task="a")
        spool.write("ended", status="succeeded")
        with pytest.raises(OSError, match="No space"):
            store_new_events(state)
        spool.write("text", text="more")
        assert store_new_events(state) and not store_new_events(state)
        state.job.refresh_from_db()
        assert (state.job.status, state.job.tokens, state.job.steps_used) == ("running", 10, 1)
        assert state.job.process_id and state.last_event and state.job.events.count() == 5


def test_a_streamed_secret_that_had_no_space_is_still_recognised_by_the_events_before(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(make_job()) as (spool, state):
        spool.write("text", text="The password is ", agent="A")
        assert store_new_events(state)
        # Once for all followers, and once for this one.
        full_once(monkeypatch, events, "insert", times=2)
        spool.write("text", text="k4n@rieVogel. Shall ", agent="A")
        with pytest.raises(OSError, match="No space"):
            store_new_events(state)
        assert store_new_events(state)
        shown = "".join(state.job.events.values_list("data__text", flat=True))
        assert "k4n@rie" not in shown and shown.endswith("Shall ")


def test_no_job_starts_until_there_is_space(
    make_job: MakeJob, project: Project, settings: Settings, terminal: Terminal, reader: Client
) -> None:
    job = make_job("succeeds.py")
    settings.JOB_MIN_FREE_BYTES = 2**62
    ensure_finished(job)
    assert (status(job), marks(project)) == ("queued", [])
    wait = wait_of(job)
    assert wait and wait.kind == "disk" and str(configured.DATA_DIR) in wait.text
    assert wait.text in reader.get(job.get_absolute_url()).content.decode()
    with pytest.raises(DataFolderFailure, match="hardly any space is left"):
        run_here(job)
    assert next_job() == job
    settings.JOB_MIN_FREE_BYTES = 0
    run_here(job)
    assert (status(job), marks(project)) == ("succeeded", [str(job.pk)])


def test_a_failure_of_the_disk_is_one_line_and_is_not_repeated_while_it_lasts() -> None:
    brief = BriefFailures()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    other = ValueError("no disk")

    def record(error: Exception) -> logging.LogRecord:
        info = (type(error), error, None)
        return logging.LogRecord("x", logging.ERROR, "", 0, "following %s", ("a",), info)

    found = [record(full) for _ in range(100)]
    assert [brief.filter(one) for one in found] == [True] + 99 * [False]
    assert found[0].exc_info is None and "No space is left on the disk" in found[0].getMessage()
    assert all(brief.filter(one) and one.exc_info for one in [record(other), record(other)])
    # A message that quotes the failure is the same one.
    quoting = logging.LogRecord("x", logging.WARNING, "", 0, "indexing failed: %s", (full,), None)
    assert not brief.filter(quoting)
    brief._seen = {text: time.monotonic() - REPEATED_SECONDS - 1 for text in brief._seen}
    assert brief.filter(record(full))
