"""A run cannot have the worker open what it may not open itself, through links in the job's folder."""

import os
from pathlib import Path

import pytest

from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.spool import EVENTS, LOG, RESERVED, STOP, Spool

SECRET = '{"seq": 1, "at": 1, "kind": "text", "data": {"text": "of another job"}}\n'


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(SECRET)
    return path


@pytest.fixture
def storage(tmp_path: Path) -> JobStorage:
    found = JobStorage(tmp_path / "8a1b9c5e-0f1d-4c52-9a6b-2d7f3e4c5b6a")
    found.create()
    return found


def test_nothing_is_read_or_written_through_links(storage: JobStorage, victim: Path) -> None:
    for name in (EVENTS, LOG, RESERVED, "stop.new", "log.clean", "request.json"):
        (storage.path / name).symlink_to(victim)
    assert storage.read_events(0) == ([], 0)
    assert storage.reserved_event() is None
    assert storage.read_log_end(1000) == (b"", True)
    assert storage.read_request() == {}
    storage.shorten_log()
    storage.write_stop({"whose": "job"})
    assert (storage.path / STOP).read_text() == '{"whose": "job"}'
    storage.clean_up(lambda text: text.replace("another", "[hidden]"))
    assert victim.read_text() == SECRET
    assert not (storage.path / LOG).is_symlink() and (storage.path / LOG).read_bytes() == b""


def test_a_pipe_in_place_of_a_file_makes_nobody_wait(storage: JobStorage) -> None:
    for name in (EVENTS, LOG, RESERVED, "request.json"):
        os.mkfifo(storage.path / name)
    assert storage.read_events(0) == ([], 0)
    assert storage.reserved_event() is None
    assert storage.read_log_end(1000) == (b"", True)
    assert storage.read_request() == {}
    storage.shorten_log()
    storage.clean_up(str)


def test_files_of_a_run_are_read_as_ever(storage: JobStorage) -> None:
    Spool(storage.path).write("text", text="its own")
    os.write(storage.open_log(), b"printed\nsk-secret\n")
    assert [one["data"] for one in storage.read_events(0)[0]] == [{"text": "its own"}]
    storage.clean_up(lambda text: text.replace("sk-secret", "[hidden]"))
    assert storage.read_log_end(1000) == (b"printed\n[hidden]\n", True)
