"""Errors of the system never make a file broken: only its bytes do."""

import errno
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.imported import imported_location
from tests.opened_files import opened_files
from tests.real_stores import copy_of, write_checkpoint
from viewer.engines.crewai.store_format import STORE_FORMAT
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import MAX_FOREIGN, import_location
from viewer.host.reading.snapshots import read_packed
from viewer.models import Checkpoint, Location, Problem
from viewer.stores import json_folder
from viewer.stores.json_folder import FolderCursor, JsonFolder
from viewer.stores.protocol import Entry, ReadLimits, ReadProblem

NAMES = ("EIO", "ESTALE", "EMFILE", "ENFILE", "EACCES", "ENOMEM", "ENOENT", "EINTR")


@pytest.mark.parametrize("code", [getattr(errno, name) for name in NAMES], ids=NAMES)
def test_a_system_error_does_not_make_a_file_broken(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors are simulated."""
    write_checkpoint(tmp_path, "20260101T000000_00000001")

    def fail(name: str, folder: int) -> int:
        raise OSError(code, os.strerror(code))

    with JsonFolder(tmp_path, ReadLimits(), [STORE_FORMAT]) as store:
        (entry,) = store.entries()
        assert isinstance(entry, Entry)
        monkeypatch.setattr(json_folder, "open_file", fail)
        problem = read_packed(store, entry)
        assert isinstance(problem, ReadProblem) and problem.kind == "unavailable" and str(problem.reason)
        monkeypatch.setattr(json_folder, "open_folder", fail)
        with JsonFolder(tmp_path, ReadLimits(), [STORE_FORMAT]) as again:
            listed = list(again.entries())
    kinds = [problem.kind for problem in listed if isinstance(problem, ReadProblem)]
    assert code == errno.ENOENT or kinds == ["unavailable"]


def test_a_file_that_has_become_a_link_is_unavailable(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "store", "20260101T000000_00000001")
    with JsonFolder(tmp_path / "store", ReadLimits(), [STORE_FORMAT]) as store:
        (entry,) = store.entries()
        assert isinstance(entry, Entry)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        problem = read_packed(store, entry)
    assert isinstance(problem, ReadProblem) and problem.kind == "unavailable"


def test_a_problem_has_the_fingerprint_of_the_bytes_that_were_read(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, "20260101T000000_00000001")
    with JsonFolder(tmp_path, ReadLimits(), [STORE_FORMAT]) as store:
        (entry,) = store.entries()
        assert isinstance(entry, Entry)
        path.rename(tmp_path / "whole")
        path.write_text("{")
        problem = read_packed(store, entry)
        (now,) = store.entries()
    assert isinstance(problem, ReadProblem) and isinstance(now, Entry)
    assert problem.fingerprint == now.fingerprint != entry.fingerprint


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """No descriptor is left for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir())) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.django_db
@pytest.mark.parametrize("store", ["1.15.30/flow", "1.14.1/cp.db"])
def test_without_descriptors_nothing_becomes_broken_or_pruned(store: str, tmp_path: Path) -> None:
    location = imported_location(copy_of(store, tmp_path))
    with no_more_descriptors():
        summary = import_location(location)
    assert summary.read_error and "Too many open files" in str(summary.read_error)
    assert not location.problems.exists()
    assert set(location.checkpoints.values_list("state", flat=True)) == {"present"}
    assert import_location(location).read_error is None


@pytest.mark.django_db
def test_a_folder_that_is_removed_during_the_listing_prunes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = imported_location(copy_of("1.15.30/flow", tmp_path))
    real = JsonFolder.entries

    def deleted_first(folder: JsonFolder, seen: FolderCursor | None) -> Iterator[Entry | ReadProblem]:
        shutil.rmtree(location.path)
        yield from real(folder, seen)

    monkeypatch.setattr(JsonFolder, "entries", deleted_first)
    assert import_location(location).read_error
    assert set(location.checkpoints.values_list("state", flat=True)) == {"present"}


@pytest.mark.django_db
def test_the_next_import_reads_what_was_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_checkpoint(tmp_path, "20260101T000000_00000001")
    real = JsonFolder.entries

    def vanishes(folder: JsonFolder, seen: FolderCursor | None) -> Iterator[Entry | ReadProblem]:
        yield from list(real(folder, seen))
        if path.exists():
            path.rename(tmp_path / "away")

    monkeypatch.setattr(JsonFolder, "entries", vanishes)
    with pytest.raises(SystemExit, match="1"):
        call_command("import_checkpoints", str(tmp_path), "--json")
    assert json.loads(capsys.readouterr().out)["unavailable"] == [path.relative_to(tmp_path).as_posix()]
    with pytest.raises(SystemExit, match="1"):
        (tmp_path / "away").rename(path)
        call_command("import_checkpoints", str(tmp_path))
    assert path.name in capsys.readouterr().out
    assert Problem.objects.get().kind == Problem.Kind.UNAVAILABLE
    monkeypatch.undo()
    (tmp_path / "away").rename(path)
    call_command("import_checkpoints", str(tmp_path))
    assert Checkpoint.objects.get().state == "present" and not Problem.objects.exists()


@pytest.mark.django_db
def test_a_refused_file_is_read_again_with_larger_limits(tmp_path: Path, settings: object) -> None:
    location = open_location(copy_of("1.15.30/flow", tmp_path))
    settings.CHECKPOINT_MAX_BYTES = 1000  # type: ignore[attr-defined]
    assert import_location(location).problems == 2
    assert set(location.problems.values_list("kind", flat=True)) == {"refused"}
    assert import_location(location).read == 0
    settings.CHECKPOINT_MAX_BYTES = 64 * 1024 * 1024  # type: ignore[attr-defined]
    assert import_location(location).added == 2
    assert Location.objects.get().problems.count() == 0


@pytest.mark.django_db
def test_a_folder_without_checkpoints_is_read_again_only_after_a_change(tmp_path: Path) -> None:
    for number in range(MAX_FOREIGN):
        (tmp_path / f"{number}.json").write_text("{}")
    location = open_location(tmp_path)
    # With the same result each time.
    for name in ("first.json", "second.json"):
        (tmp_path / name).write_text("{}")
        assert "checkpoint" in str(import_location(location).read_error)
        with opened_files(tmp_path) as opened:
            assert "checkpoint" in str(import_location(location).read_error)
        assert opened == []
