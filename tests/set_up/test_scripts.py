"""The set-up scripts do their work once, and report what they cannot do."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.bench import MEASUREMENTS

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"


def run(command: list[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def empty_environment(tmp_path: Path) -> Path:
    """Return an existing environment, with empty requirements in the folder above it."""
    folder = tmp_path / ".venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True
    )
    # The pip of this test replaces that of the environment.
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "beside.pth").write_text(
        os.pathsep.join(path for path in sys.path if "site-packages" in path)
    )
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    return folder


def test_an_environment_is_reinstalled_when_its_requirements_change(
    empty_environment: Path,
) -> None:
    command: list[str | Path] = [SCRIPTS / "environment", empty_environment, "requirements.txt"]
    first, second = run(command), run(command)
    assert (first.returncode, "Installing requirements.txt" in first.stdout) == (0, True), first.stderr
    assert (second.returncode, second.stdout) == (0, "")
    (empty_environment.parent / "requirements.txt").write_text("# still nothing\n")
    assert "Installing requirements.txt" in run(command).stdout


def test_a_failed_installation_is_an_error(empty_environment: Path) -> None:
    (empty_environment.parent / "requirements.txt").write_text("./nowhere\n")
    command: list[str | Path] = [SCRIPTS / "environment", empty_environment, "requirements.txt"]
    failed = run(command)
    assert failed.returncode != 0
    assert "nowhere" in failed.stderr
    # The next call tries again, because nothing was installed.
    assert run(command).returncode != 0


def fake_python(folder: Path, name: str, version: tuple[int, int]) -> Path:
    """Create a fake Python of this name and version. Its environments use the pip of this test."""
    folder.mkdir(exist_ok=True)
    path, packages = folder / name, [path for path in sys.path if "site-packages" in path]
    path.write_text(
        f"""#!/bin/bash
case "$2" in *version_info*) exit {int(version < (3, 11))};; esac
echo "{name} $*" >> {folder}/calls
if [ "$2" != venv ]; then exec {sys.executable} "$@"; fi
{sys.executable} -m venv --without-pip "$3"
for path in "$3"/lib/python3*/site-packages; do echo "{packages[0]}" > "$path/beside.pth"; done
"""
    )
    path.chmod(0o755)
    return path


def tools(folder: Path) -> str:
    """Return a PATH with the tools of the script, without any Python."""
    folder.mkdir(exist_ok=True)
    for name in ("bash", "env", "id", "cat", "sha256sum", "cut", "dirname", "basename", "rm", "ls"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_a_recent_python_is_found(tmp_path: Path, name: str) -> None:
    path = tools(tmp_path / "bin")
    fake_python(tmp_path / "bin", "python3", (3, 9))
    fake_python(tmp_path / "bin", name, (3, int(name.partition(".")[2])))
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    made = run([SCRIPTS / "environment", tmp_path / ".venv", "requirements.txt"], PATH=path, PYTHON="")
    assert made.returncode == 0, made.stderr
    assert f"{name} -m venv {tmp_path / '.venv'}" in (tmp_path / "bin" / "calls").read_text()
    assert (tmp_path / ".venv" / "installed-requirements.txt").exists()


def test_only_old_pythons_are_an_error(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin")
    fake_python(tmp_path / "bin", "python3", (3, 9))
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    failed = run([SCRIPTS / "environment", tmp_path / ".venv", "requirements.txt"], PATH=path, PYTHON="")
    assert failed.returncode == 1
    assert "Python 3.11 or newer is needed" in failed.stderr
    assert not (tmp_path / ".venv").exists()


def interpreter_missing(folder: Path) -> None:
    for path in (folder / "bin").glob("python*"):
        path.unlink()
        path.symlink_to("/nowhere/python")


def incomplete(folder: Path) -> None:
    shutil.rmtree(folder / "lib")
    (folder / "pyvenv.cfg").unlink()


def too_old(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    fake_python(folder / "bin", "python", (3, 9))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("broken", [interpreter_missing, incomplete, too_old, empty])
def test_a_broken_environment_is_recreated(tmp_path: Path, broken: Callable[[Path], None]) -> None:
    folder = tmp_path / ".venv"
    python = str(fake_python(tmp_path / "bin", "python3", (3, 12)))
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    command: list[str | Path] = [SCRIPTS / "environment", folder, "requirements.txt"]
    assert run(command, PYTHON=python).returncode == 0
    broken(folder)
    again = run(command, PYTHON=python)
    assert again.returncode == 0, again.stderr
    assert f"Making {folder} again" in again.stdout
    assert run(command, PYTHON=python).stdout == ""


def test_a_folder_that_is_not_an_environment_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".venv"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    failed = run([SCRIPTS / "environment", folder, "requirements.txt"])
    assert failed.returncode == 1
    assert "is no Python environment" in failed.stderr
    assert (folder / "thesis.txt").read_text() == "mine"


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """Return a PATH without dot, Chromium or a way to install them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "env", "id"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def test_a_missing_dot_is_reported_and_optional(bare_path: str) -> None:
    printed = run([SCRIPTS / "system-packages", "dot"], PATH=bare_path)
    assert printed.returncode == 0
    assert "sudo apt-get install graphviz" in printed.stderr


def test_a_missing_browser_is_an_error_with_its_command(bare_path: str) -> None:
    printed = run([SCRIPTS / "system-packages", "browser"], PATH=bare_path)
    assert printed.returncode == 1
    assert "sudo apt-get install chromium" in printed.stderr


def test_installed_packages_are_not_mentioned() -> None:
    printed = run([SCRIPTS / "system-packages", "dot", "browser"])
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, "", "")


def test_every_benchmark_can_be_imported_alone() -> None:
    root = SCRIPTS.parent
    folder = root / "quality/benchmarks"
    named = {path.stem for path in folder.glob("*.py") if "def main()" in path.read_text()}
    named |= {path.parent.name for path in folder.glob("*/__main__.py")}
    assert set(MEASUREMENTS) == named
    for name in MEASUREMENTS:
        code = f"import quality.benchmarks.{name}"
        outcome = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
        assert outcome.returncode == 0, outcome.stderr
