"""A worker whose data folder is removed exits and leaves its runs running."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from pytest_django import Settings

from checkpoint_site import environment
from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.waiting import wait_until
from viewer.data_folder import permissions
from viewer.management import ForklineCommand


def started_worker(folder: Path, **variables: str) -> "subprocess.Popen[str]":
    found = environment_with(folder, **variables)
    command = [sys.executable, "manage.py", "worker"]
    return subprocess.Popen(command, cwd=ROOT, env=found, stderr=subprocess.PIPE, text=True)


@pytest.mark.sqlite
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_worker_exits_with_the_reason(empty_data_folder: Path, tmp_path: Path, is_replaced: bool) -> None:
    folder = Path(shutil.copytree(empty_data_folder, tmp_path / "data"))
    worker = started_worker(folder)
    wait_until((folder / "worker.lock").exists)
    wait_until(lambda: (folder / "worker.lock").read_text() != "")
    # Paused, so that it does not see a folder that is only partly copied.
    worker.send_signal(signal.SIGSTOP)
    folder.rename(tmp_path / "elsewhere")
    if is_replaced:
        shutil.copytree(tmp_path / "elsewhere", folder)
    worker.send_signal(signal.SIGCONT)
    _out, said = worker.communicate(timeout=60)
    last = said.splitlines()[-1]
    text = "was replaced" if is_replaced else "is missing"
    assert worker.returncode == 1 and str(folder) in last and text in last and "Traceback" not in said
    assert folder.exists() == is_replaced


def test_a_missing_folder_is_not_created_again(tmp_path: Path) -> None:
    assert environment.SERVED == permissions.SERVED
    folder = tmp_path / "data"
    worker = started_worker(folder, **{permissions.SERVED: f"{folder}|1:1|1:1"})
    _out, said = worker.communicate(timeout=60)
    assert worker.returncode == 1 and not folder.exists()
    assert (
        said
        == f"DATA_DIR: the folder {folder} is missing. Restore it, or stop Forkline and start it again.\n"
    )


@pytest.mark.sqlite
def test_a_worker_does_not_continue_in_a_replaced_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    worker = started_worker(folder, **{permissions.SERVED: f"{folder}|1:1|1:1"})
    _out, said = worker.communicate(timeout=60)
    assert worker.returncode == 1 and "The database in" in said and not (folder / "forkline.sqlite3").exists()
    assert not psutil.pid_exists(worker.pid) or worker.poll() is not None


class RemovesItsDataFolder(ForklineCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        permissions.remember()
        folder = Path(django_settings.DATA_DIR)
        folder.rmdir()
        (folder / "prewarm").mkdir()


@pytest.mark.usefixtures("db")
def test_a_command_reports_the_missing_folder_instead_of_a_file_in_it(
    settings: Settings, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    with pytest.raises(CommandError, match=f"The data folder {settings.DATA_DIR} is missing"):
        call_command(RemovesItsDataFolder())
