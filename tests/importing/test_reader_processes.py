"""Large imports that several reader processes share."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pytest_django import Settings
from zstandard import decompress

from tests.real_stores import hashes_below, one_checkpoint
from tests.waiting import wait_until
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location, prepare_import
from viewer.host.reading import location_reader, pool
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.host.reading.pool import end_idle_readers, reader_count
from viewer.models import Location
from viewer.stores.protocol import Entry, Packed, ReadLimits, ReadProblem

COUNT = 90


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with enough checkpoints for several readers, some of them broken."""
    monkeypatch.setattr(location_reader, "MIN_ENTRIES_FOR_SEVERAL", 10)
    monkeypatch.setattr(location_reader, "BATCH_SIZE", 3)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(COUNT):
        body = one_checkpoint()
        body["entities"][0]["checkpoint_state"]["id"] = f"run {number // 10}"
        body["entities"][0]["checkpoint_state"]["api_key"] = f"CANARY-{number:04d}"
        text = json.dumps(body)
        (folder / f"20260101T0000{number % 60:02d}_{number:08x}_p-none.json").write_text(
            text[:-9] if number % 30 == 7 else text
        )
    return folder


@pytest.mark.django_db
def test_several_readers_import_everything(many: Path) -> None:
    before = hashes_below(many)
    location = open_location(many)
    summary = import_location(location)
    assert (summary.read, summary.added, summary.problems) == (COUNT, COUNT - 3, 3)
    assert sorted(location.runs.values_list("checkpoint_count", flat=True)) == [9, 9, 9, *([10] * 6)]
    # These three may still be being written.
    assert import_location(location).read == 3
    assert hashes_below(many) == before


def read(folder: Path, most_readers: int = 2) -> Iterator[Packed | ReadProblem]:
    with open_reader(LocationAddress(folder, ReadLimits())) as store:
        entries = [item for item in store.entries() if isinstance(item, Entry)]
        yield from store.read_all(entries, most_readers)


def reader_processes() -> list[psutil.Process]:
    """The readers of this process, which may have other children."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any("host.reading.program" in argument for argument in child.cmdline()):
                found.append(child)
    return found


def keys_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_secrets_do_not_leave_a_reader(many: Path) -> None:
    found = list(read(many))
    assert len(found) == COUNT
    bodies = [decompress(one.data) for one in found if isinstance(one, Packed)]
    assert bodies and not any(b"CANARY" in body for body in bodies)


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_lost_if_a_reader_is_killed(count: int, many: Path) -> None:
    end_idle_readers()
    found: list[Packed | ReadProblem] = []
    for result in read(many, count):
        found.append(result)
        if len(found) == 10:
            reader_processes()[-1].kill()
    assert sorted(result.key for result in found) == keys_in(many)
    assert sum(isinstance(result, ReadProblem) for result in found) == 3


def test_readers_that_are_always_killed_make_files_unavailable(many: Path) -> None:
    end_idle_readers()
    found: list[Packed | ReadProblem] = []
    for result in read(many, 1):
        found.append(result)
        for child in reader_processes():
            child.kill()
    assert sorted(result.key for result in found) == keys_in(many)
    given_up = [result for result in found if isinstance(result, ReadProblem) and result.kind != "writing"]
    assert all(problem.kind == "unavailable" for problem in given_up)


def test_readers_read_everything_once_and_are_reused(many: Path) -> None:
    end_idle_readers()
    assert sorted(result.key for result in read(many)) == keys_in(many)
    assert len(pool._idle) == 2
    waiting = {reader.pid for reader in pool._idle}
    assert len(list(read(many))) == COUNT
    assert {reader.pid for reader in pool._idle} == waiting
    pool._idle[0]._child.kill()
    pool._idle[0]._child.wait()
    assert len(list(read(many))) == COUNT
    assert len({reader.pid for reader in pool._idle} & waiting) == 1


def test_an_abandoned_import_ends_the_readers_that_have_not_answered(many: Path) -> None:
    end_idle_readers()
    some = read(many)
    next(some)
    asked = [child.pid for child in reader_processes()]
    some.close()  # type: ignore[attr-defined]
    assert not any(psutil.pid_exists(pid) for pid in asked if pid not in {one.pid for one in pool._idle})


def test_readers_that_were_prepared_are_used(many: Path) -> None:
    end_idle_readers()
    prepare_import()
    prepare_import()
    waiting = {reader.pid for reader in pool._idle}
    assert len(waiting) == reader_count()
    assert len(list(read(many))) == COUNT
    assert {reader.pid for reader in pool._idle} == waiting


def test_a_reader_that_was_started_ahead_and_has_ended_is_replaced(many: Path) -> None:
    end_idle_readers()
    pool.start_ahead(1)
    reader = pool._idle[0]
    # Its process still exists when it is chosen, but can no longer be reached.
    os.kill(reader.pid, signal.SIGSTOP)
    reader._requests.shutdown(socket.SHUT_RDWR)
    assert len(list(read(many, 1))) == COUNT
    assert not psutil.pid_exists(reader.pid)


def test_an_idle_reader_ends_with_its_parent() -> None:
    code = "from viewer.host.reading import pool\npool.start_ahead(1); print(pool._idle[0].pid)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not psutil.pid_exists(int(ended.stdout))
    assert ended.stderr == ""


def test_a_reader_ends_if_its_parent_is_killed() -> None:
    code = (
        "import os\nfrom viewer.host.reading import pool\npool.start_ahead(1)\n"
        "print(pool._idle[0].pid, flush=True); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wait_until(lambda: not psutil.pid_exists(int(ended.stdout)))


@pytest.mark.django_db
def test_readers_enforce_the_limits(many: Path, settings: Settings) -> None:
    settings.CHECKPOINT_MAX_BYTES = 1000
    import_location(open_location(many))
    assert Location.objects.get().problems.count() == COUNT


@pytest.mark.parametrize("note", [b"\xff\xfe", b"soon row", b"1.5 \xff", b""])
def test_a_note_of_any_bytes_names_no_row(note: bytes) -> None:
    reader = pool.ReaderProcess()
    try:
        os.pwrite(reader._note.fileno(), note, 0)
        assert reader.noted_row() == ("", 0.0)
    finally:
        reader.end()
