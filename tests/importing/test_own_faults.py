"""What goes wrong in Forkline itself while one checkpoint is read costs no other."""

import logging
from pathlib import Path

import pytest

from tests.real_stores import write_checkpoint
from viewer.stores import packing, store_at
from viewer.stores.packing import Packed, read_packed
from viewer.stores.protocol import Entry, ReadProblem


class PanicException(BaseException):
    """As libraries written in Rust raise."""


class FailingCompressor:
    """A library that fails for one of its inputs."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def compress(self, data: bytes) -> bytes:
        if b"POISON" in data:
            raise self.error
        return data


def read_in(folder: Path) -> list[Packed | ReadProblem]:
    """What a reader process makes of the files in a folder."""
    with store_at(folder) as provider:
        entries = [entry for entry in provider.entries() if isinstance(entry, Entry)]
        return [read_packed(provider, entry) for entry in sorted(entries, key=lambda entry: entry.key)]


@pytest.mark.parametrize("error", [KeyError("POISON text"), PanicException("POISON text")])
def test_an_unexpected_error_is_listed_and_its_neighbours_are_read(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for second, trigger in enumerate(["task_started", "POISON", "task_completed"]):
        write_checkpoint(tmp_path, f"20260101T00000{second}_0000000{second}", trigger=trigger)
    monkeypatch.setattr(packing, "_compress", FailingCompressor(error))
    with caplog.at_level(logging.ERROR):
        first, fault, last = read_in(tmp_path)
    assert isinstance(first, Packed) and isinstance(last, Packed)
    assert isinstance(fault, ReadProblem) and "20260101T000001_00000001" in fault.key
    assert type(error).__name__ in str(fault.reason)
    assert fault.key in caplog.text and "POISON" not in caplog.text


def test_memory_that_runs_out_refuses_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "20260101T000000_00000000", trigger="POISON")
    monkeypatch.setattr(packing, "_compress", FailingCompressor(MemoryError()))
    (fault,) = read_in(tmp_path)
    assert isinstance(fault, ReadProblem) and fault.kind == "refused" and "memory" in str(fault.reason)


def test_somebody_who_stops_a_reader_does_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "20260101T000000_00000000", trigger="POISON")
    monkeypatch.setattr(packing, "_compress", FailingCompressor(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        read_in(tmp_path)
