"""An unexpected error while one checkpoint is read does not affect the others."""

import logging
from pathlib import Path

import pytest

from quality.local_stores import store_at
from tests.real_stores import write_checkpoint
from viewer.host.reading.snapshots import read_packed
from viewer.stores import protocol
from viewer.stores.protocol import Entry, Packed, ReadProblem


class PanicException(BaseException):
    """A panic of a library that is written in Rust."""


class FailingCompressor:
    """A compressor that fails for one of its inputs."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def compress(self, data: bytes) -> bytes:
        if b"POISON" in data:
            raise self.error
        return data


def read_in(folder: Path) -> list[Packed | ReadProblem]:
    """The results of a reader process for the files of a folder."""
    with store_at(folder) as store:
        entries = [entry for entry in store.entries() if isinstance(entry, Entry)]
        return [read_packed(store, entry) for entry in sorted(entries, key=lambda entry: entry.key)]


@pytest.mark.parametrize("error", [KeyError("POISON text"), PanicException("POISON text")])
def test_an_unexpected_error_is_a_problem_of_its_file_only(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for second, trigger in enumerate(["task_started", "POISON", "task_completed"]):
        write_checkpoint(tmp_path, f"20260101T00000{second}_0000000{second}", trigger=trigger)
    monkeypatch.setattr(protocol, "_compress", FailingCompressor(error))
    with caplog.at_level(logging.ERROR):
        first, problem, last = read_in(tmp_path)
    assert isinstance(first, Packed) and isinstance(last, Packed)
    assert isinstance(problem, ReadProblem) and "20260101T000001_00000001" in problem.key
    assert type(error).__name__ in str(problem.reason)
    assert problem.key in caplog.text and "POISON" not in caplog.text


def test_a_file_that_exhausts_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "20260101T000000_00000000", trigger="POISON")
    monkeypatch.setattr(protocol, "_compress", FailingCompressor(MemoryError()))
    (problem,) = read_in(tmp_path)
    assert isinstance(problem, ReadProblem) and problem.kind == "refused" and "memory" in str(problem.reason)


def test_a_keyboard_interrupt_ends_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "20260101T000000_00000000", trigger="POISON")
    monkeypatch.setattr(protocol, "_compress", FailingCompressor(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        read_in(tmp_path)
