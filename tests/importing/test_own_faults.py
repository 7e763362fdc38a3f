"""What goes wrong in Forkline itself while one checkpoint is read costs no other."""

import logging
from pathlib import Path

import pytest

from tests.real_stores import write_checkpoint
from viewer.importing import import_location, open_location
from viewer.providers import packing


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


@pytest.mark.django_db
@pytest.mark.parametrize("error", [KeyError("POISON text"), MemoryError(), PanicException("POISON text")])
def test_an_unexpected_error_is_listed_and_its_neighbours_import(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for second, trigger in enumerate(["task_started", "POISON", "task_completed"]):
        write_checkpoint(tmp_path, f"20260101T00000{second}_0000000{second}", trigger=trigger)
    monkeypatch.setattr(packing, "_compress", FailingCompressor(error))
    location = open_location(tmp_path)
    with caplog.at_level(logging.ERROR):
        summary = import_location(location)
    assert (summary.added, summary.problems) == (2, 1)
    problem = location.problems.get()
    assert "20260101T000001_00000001" in problem.key
    assert type(error).__name__ in problem.reason
    assert problem.key in caplog.text and "POISON" not in caplog.text


@pytest.mark.django_db
def test_somebody_who_stops_an_import_does_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "20260101T000000_00000000", trigger="POISON")
    monkeypatch.setattr(packing, "_compress", FailingCompressor(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        import_location(open_location(tmp_path))
