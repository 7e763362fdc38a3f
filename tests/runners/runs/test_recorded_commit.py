"""A real crew is forked with the commit that a job has recorded, although its code has changed since."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import execute_from_command_line

from tests.engine_runs.checkpoints import crew_after
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, PRESS
from tests.jobs.code.repositories import committed, git, state_of
from tests.runners.runs.conftest import Done, Terminal, document
from viewer.models import Job


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The press project in a repository, with changes that are not in its commit."""
    folder = tmp_path / "press"
    shutil.copytree(PRESS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    edit(folder, "recorded")
    committed(folder, __gitignore="*.env\n.venv\n__pycache__\nnote.txt\n")
    return folder


def edit(code: Path, mark: str) -> None:
    """Have the crew's module print this mark, and write a file to its working folder."""
    first = f'print("the {mark} code")\nopen("note.txt", "w").close()\n'
    module = code / "press_crew.py"
    module.write_text(first + module.read_text())


@pytest.fixture
def terminal(
    code: Path,
    engine_python: Path,
    model: TestModel,
    transactional_db: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """The commands, with an environment in the project in which the project itself is installed."""
    file = code / "press.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={model.url}\n")
    subprocess.run([str(engine_python), "-m", "venv", "--without-pip", str(code / ".venv")], check=True)
    (packages,) = code.glob(".venv/lib/python3*/site-packages")
    (installed,) = engine_python.parent.parent.glob("lib/python3*/site-packages")
    (packages / "engine.pth").write_text(f"{code}\nimport site; site.addsitedir({str(installed)!r})\n")
    project = ["--project", str(code), "--python", str(code / ".venv/bin/python"), "--env-file", str(file)]

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = 0
        try:
            execute_from_command_line(["manage.py", "checkpoints", *arguments, *project])
        except SystemExit as ended:
            status = int(ended.code or 0)
        out, error = capsys.readouterr()
        return Done(list(arguments), status, out, error)

    return run


def forked(terminal: Terminal, target: str, *arguments: str) -> dict[str, Any]:
    done = terminal("fork", target, "--entrypoint", "press_crew:make_crew", *arguments, "--wait", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    return document(done)


def log_of(job: Job) -> str:
    return (job.folder / "log.txt").read_text()


def test_a_fork_runs_the_recorded_commit(
    terminal: Terminal, model: TestModel, stores: Path, code: Path
) -> None:
    location, start, _before = crew_after(stores, 2)
    first = forked(terminal, f"{location}#{start.id}", "--branch", "first")
    commit = git(code, "rev-parse", "HEAD")
    edit(code, "present")
    committed(code)
    (code / "note.txt").unlink()
    before = state_of(code)
    target = first["checkpoints"][0]["target"]

    second = forked(terminal, target, "--branch", "recorded", "--code", "recorded")
    assert second["status"] == "succeeded" and second["checkpoints"]
    job = Job.objects.get(pk=second["job"])
    assert "the recorded code" in log_of(job) and "the present code" not in log_of(job)
    assert job.code and job.code.commit == job.commit == commit and job.code.is_dirty is False
    assert job.code == Job.objects.get(pk=first["job"]).code
    assert state_of(code) == before
    # What the commit has is removed with the job's other files, and what the run wrote stays.
    assert [path.name for path in job.folder.glob("checkout*/*")] == ["note.txt"]

    third = forked(terminal, target, "--branch", "present")
    assert "the present code" in log_of(Job.objects.get(pk=third["job"]))
