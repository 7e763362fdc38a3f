"""Forkline's own files are private, new and existing ones. Other files are not touched."""

import os
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.environments import environment_with
from tests.real_stores import copy_of
from tests.terminal import without_progress
from viewer.data_folder.permissions import restrict
from viewer.host.locations.adding import open_write_target
from viewer.host_requests import WriteTarget
from viewer.management import WARNED, warn_of_root
from viewer.models import Location, Project

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = str(uuid.uuid4())
OURS = [
    *(
        "forkline.sqlite3",
        "forkline.sqlite3-wal",
        "forkline.sqlite3-shm",
        "secret_key",
        "host_id",
        "permitted_paths",
        "worker.lock",
    ),
    *(f"jobs/{JOB}/request.json", f"jobs/{JOB}/scratch/deep/copy.json", f"imports/{JOB}.lock"),
    *(
        f"preflight/{JOB}/log",
        "preflight/slot-0.lock",
        "prewarm/3-0123456789ab.log",
        "preparing.lock",
        "log-not-emptied",
    ),
    *(f"key_proxy/{JOB}.json", "key_proxy/start.lock", "key_proxy/port", "key_proxy/log"),
    *(f"key_proxy/port.{'0' * 32}", f"guard/1.json.{'0' * 32}"),
    "backups/forkline-2026-01-01.sqlite3",
]
# In a folder that was chosen by mistake.
THEIRS = ["notes.txt", "uv.lock", "src/main.py", "jobs.csv", "backups/photos.zip", "imports/data.csv"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def laid_out(folder: Path, names: list[str]) -> None:
    """Create these files and their folders with open permissions."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o666)
    for below, folders, _files in os.walk(folder):
        for one in (below, *(f"{below}/{name}" for name in folders)):
            Path(one).chmod(0o755)


def open_paths(folder: Path) -> set[str]:
    found = [path for path in folder.rglob("*") if not path.is_symlink() and mode(path) & 0o077]
    return {path.relative_to(folder).as_posix() for path in found}


def command(folder: Path, *arguments: str, umask: str = "022") -> "subprocess.CompletedProcess[str]":
    """Run a command from a shell with this umask."""
    environment = environment_with(folder)
    del environment["FORKLINE_UMASK"]
    line = f'umask {umask}; exec "$@"'
    call = ["sh", "-c", line, "sh", sys.executable, "manage.py", *arguments]
    return subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_only_forklines_own_files_are_restricted(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    laid_out(folder, OURS + THEIRS)
    found = restrict(folder)
    theirs = {*THEIRS, "src", "backups", "imports"}
    assert open_paths(folder) == theirs
    assert mode(folder) == 0o700 and mode(folder / "jobs" / JOB / "scratch") == 0o700
    assert {*OURS, ""} <= set(found.paths) and not theirs & set(found.paths)
    assert restrict(folder).paths == restrict(folder, thorough=True).paths == []


def test_a_private_folder_is_only_searched_where_needed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    laid_out(folder, OURS)
    folder.chmod(0o700)
    assert "secret_key" in restrict(folder).paths and open_paths(folder) == set()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "data"
    laid_out(elsewhere, ["key", f"{JOB}/file"])
    folder.mkdir()
    (folder / "secret_key").symlink_to(elsewhere / "key")
    (folder / "jobs").symlink_to(elsewhere)
    (folder / "preflight").mkdir()
    (folder / "preflight" / JOB).symlink_to(elsewhere / JOB)
    for path in (folder, folder / "preflight"):
        path.chmod(0o755)
    # A hard link to another file.
    (folder / "worker.lock").hardlink_to(elsewhere / "key")
    found = restrict(folder, thorough=True)
    assert open_paths(elsewhere) == {"key", JOB, f"{JOB}/file"}
    assert set(found.paths) == {"", "preflight"} and found.left == ["worker.lock"]


@pytest.mark.parametrize("chosen", ["home", "sticky"])
def test_a_shared_folder_is_left_alone(tmp_path: Path, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, ["secret_key", "notes.txt"])
    if chosen == "home":
        monkeypatch.setenv("HOME", str(tmp_path))
    else:
        tmp_path.chmod(0o1777)
    before = mode(tmp_path)
    found = restrict(tmp_path)
    assert (found.paths, found.left, mode(tmp_path)) == (["secret_key"], [""], before)


def test_a_command_restricts_an_older_folder_and_reports_it_once(tmp_path: Path) -> None:
    folder, store = tmp_path / "data", copy_of("1.15.30/json", tmp_path)
    command(folder, "import_checkpoints", str(store))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    listed = command(folder, "checkpoints", "list", str(store))
    assert "were open to other users" in listed.stderr and listed.returncode == 0
    assert mode(folder) == 0o700 and open_paths(folder) == set()
    assert mode(folder / "forkline.sqlite3") == mode(folder / "secret_key") == 0o600
    again = command(folder, "checkpoints", "list", str(store))
    assert (without_progress(again.stderr), again.stdout) == ("", listed.stdout)


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_new_files_are_private(tmp_path: Path, umask: str) -> None:
    folder, store = tmp_path / "data", copy_of("1.15.30/json", tmp_path)
    assert command(folder, "import_checkpoints", str(store), umask=umask).returncode == 0
    assert mode(folder) == 0o700 and (folder / "forkline.sqlite3").exists()
    assert open_paths(folder) == set()


def test_a_new_location_uses_the_users_umask(db: None, tmp_path: Path, settings: Settings) -> None:
    settings.USERS_UMASK = 0o002
    project = Project.objects.create(folder=str(tmp_path), interpreter="/usr/bin/python3")
    for name, store_kind in (
        ("new/store", Location.StoreKind.JSON),
        ("other/store.db", Location.StoreKind.SQLITE),
    ):
        open_write_target(WriteTarget(str(tmp_path / name), store_kind), project)
        assert mode((tmp_path / name).parent) == 0o775
    assert (mode(tmp_path / "new/store"), mode(tmp_path / "other/store.db")) == (0o775, 0o664)


def test_running_as_root_warns_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(WARNED, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    warn_of_root()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    warn_of_root()
    warn_of_root()
    assert capsys.readouterr().err.count("runs as root") == 1
    # The web server and the worker inherit that the warning was given.
    assert os.environ[WARNED] == "1"
    monkeypatch.delenv(WARNED)
