"""The files of jobs, as the server reads and writes them."""

import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from viewer.host.jobs.files import JobStorage
from viewer.models.runs import SCRATCH_STORE

KILLED_WRITER = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode=WAL")
database.execute("CREATE TABLE threads AS SELECT 'value' AS value")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def storage(tmp_path: Path) -> JobStorage:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    return storage


def files_in(storage: JobStorage) -> list[str]:
    return sorted(path.name for path in storage.path.iterdir())


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow beyond a few bytes within the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_answer_is_written_and_deleted(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert not storage.has_answer(1)
    storage.write_answer(1, "yes")
    assert storage.has_answer(1) and not storage.has_answer(2)
    storage.delete_answer(1)
    assert not storage.has_answer(1)


def test_the_runner_lock_is_held_by_one_runner(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert storage.acquire_runner_lock() is not None
    assert storage.has_runner() and storage.acquire_runner_lock() is None


def test_clean_up_leaves_only_the_redacted_log(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    storage.write_request({"kind": "run"})
    storage.write_stored_copy(b"{}")
    storage.write_answer(1, "yes")
    storage.write_stop({"whose": "day"})
    (storage.path / "log.txt").write_text("key\n")
    storage.clean_up(lambda text: text.replace("key", "[redacted]"))
    assert [path.name for path in storage.path.iterdir()] == ["log.txt"]
    assert (storage.path / "log.txt").read_text() == "[redacted]\n"


def test_what_sqlite_left_next_to_a_draft_is_deleted_with_it(storage: JobStorage) -> None:
    # A killed runner leaves its log, which holds real values.
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(storage.path / SCRATCH_STORE)], check=False)
    assert files_in(storage) == [SCRATCH_STORE, f"{SCRATCH_STORE}-shm", f"{SCRATCH_STORE}-wal"]
    draft = storage.draft()
    assert draft and draft.size == storage.size() > 8192
    storage.delete_draft()
    assert storage.draft() is None and files_in(storage) == []


def test_clean_up_deletes_whatever_a_run_has_put_in_the_place_of_a_file(storage: JobStorage) -> None:
    for name in ("log.clean", "request.json", "answer-1.json", "checkpoint.json"):
        (storage.path / name / "below").mkdir(parents=True)
    (storage.path / "scratch").write_text("a copy of the checkpoint")
    (storage.path / "checkpoint.json-wal").write_text("its log")
    (storage.path / "stop").symlink_to("request.json")
    (storage.path / "log.txt").write_text("key\n")
    storage.clean_up(lambda text: text.replace("key", "[redacted]"))
    assert files_in(storage) == ["log.txt"]
    assert (storage.path / "log.txt").read_text() == "[redacted]\n"


def test_a_job_whose_log_leads_elsewhere_counts_as_started_whenever_its_clean_up_is_killed(
    storage: JobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (storage.path / "log.txt").symlink_to("nowhere")
    (storage.path / "log.clean").mkdir()
    was_started: list[bool] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            was_started.append(storage.was_started())
            return result

        return call

    for name in ("unlink", "touch", "replace"):
        monkeypatch.setattr(Path, name, noted(getattr(Path, name)))
    storage.clean_up(str)
    assert was_started and all(was_started)
    assert files_in(storage) == ["log.txt"] and not (storage.path / "log.txt").is_symlink()


def test_a_folder_in_the_place_of_a_draft_is_none(storage: JobStorage) -> None:
    (storage.path / SCRATCH_STORE).mkdir()
    assert storage.draft() is None
    storage.delete_draft()


def test_a_file_is_written_whole_or_not_at_all(storage: JobStorage) -> None:
    storage.write_stop({"whose": "day"})
    with full_disk():
        for write in (storage.write_request, storage.write_stop):
            with pytest.raises(OSError):
                write({"inputs": {"word": "many characters"}})
            storage.delete_stop()
        with pytest.raises(OSError):
            storage.write_answer(1, "many characters")
    assert files_in(storage) == []
