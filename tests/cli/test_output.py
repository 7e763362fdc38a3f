"""Output that cannot be written ends a command with one line, or none, and never with a traceback."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import environment_with
from tests.real_stores import copy_of

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def environment(empty_data_folder: Path, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a command with its own data folder."""
    shutil.copytree(empty_data_folder, tmp_path / "data")
    return environment_with(tmp_path / "data")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_device_is_one_line(tmp_path: Path, environment: dict[str, str], form: list[str]) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    command = [sys.executable, "manage.py", "checkpoints", "list", str(store), *form]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=full, stderr=subprocess.PIPE)
    text = "CommandError: The output could not be written: No space left on device.\n"
    assert (ended.returncode, ended.stderr.decode()) == (1, text)


def test_a_closed_pipe_is_not_reported_as_an_error(tmp_path: Path, environment: dict[str, str]) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    command = [sys.executable, "manage.py", "checkpoints", "list", str(store)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    printed = process.stderr.read().decode()
    # As the shell reports a program that SIGPIPE has ended.
    assert (process.wait(), printed) == (141, "")
