"""Locks between processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import LazySettings

from viewer.data_folder.locks import lock_named

ROOT = Path(__file__).resolve().parents[2]
HOLD = (
    "import sys; from pathlib import Path; from viewer.data_folder.locks import FileLock;"
    "print(FileLock(Path(sys.argv[1])).acquire(shared=bool(sys.argv[2])), flush=True); input()"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: LazySettings) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


@contextmanager
def held_elsewhere(path: Path, *, shared: bool = False) -> "Iterator[subprocess.Popen[bytes]]":
    """Hold the lock in another process within the block, unless that process is killed first."""
    command = [sys.executable, "-c", HOLD, str(path), "shared" if shared else ""]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline().strip().isdigit()
        yield process
        process.kill()


def test_one_process_holds_a_lock(folder: Path) -> None:
    lock = lock_named("one")
    assert not lock.is_held()
    with lock.held() as is_held:
        assert is_held and lock.is_held()
        with lock.held() as is_held_twice:
            assert not is_held_twice
    with held_elsewhere(folder / "one.lock"), lock.held() as is_held:
        assert not is_held and lock.is_held()


def test_a_killed_process_releases_its_lock(folder: Path) -> None:
    with held_elsewhere(folder / "one.lock") as process:
        process.kill()
        process.wait()
        with lock_named("one").held() as is_held:
            assert is_held


def test_a_shared_lock_excludes_exclusive_holders(folder: Path) -> None:
    lock = lock_named("one")
    with held_elsewhere(folder / "one.lock", shared=True), lock.held(shared=True) as is_shared:
        assert is_shared and lock.is_held(shared=True)
        with lock.held() as is_held:
            assert not is_held
    assert not lock.is_held(shared=True)


def test_a_name_with_a_folder(folder: Path) -> None:
    with lock_named("imports/one").held(wait=True) as is_held:
        assert is_held and lock_named("imports/one").is_held()
    assert (folder / "imports").stat().st_mode & 0o777 == 0o700


def test_the_last_note_is_kept_in_the_lock() -> None:
    lock = lock_named("one")
    assert lock.note() == ""
    with lock.held(note="12"):
        assert lock.note() == "12"
    with lock.held(note="4"):
        pass
    assert lock.note() == "4"


def test_without_the_data_folder_no_lock_is_acquired(folder: Path, settings: LazySettings) -> None:
    settings.DATA_DIR = folder / "gone"
    with pytest.raises(FileNotFoundError), lock_named("one").held():
        pass
    with pytest.raises(FileNotFoundError):
        lock_named("imports/one")
    assert not lock_named("one").is_held() and not (folder / "gone").exists()
