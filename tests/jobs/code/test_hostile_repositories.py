"""A repository's configuration names programs. None is run, and nothing in the repository changes."""

import os
import subprocess
from pathlib import Path

import pytest

from quality.fuzz.hostile_repositories import CONFIG
from tests.jobs.code.repositories import committed, git, state_of
from viewer.host.jobs.checkout import blob
from viewer.host.jobs.code import code_of, difference
from viewer.models import Project, RecordedCode

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository in which everything that can name a program names one that leaves a mark."""
    found = tmp_path / "code"
    committed(found, main__py="first\n", prompt__md="Be brief.\n", __gitignore="build\n")
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'mark'}\ncat\n")
    program.chmod(0o700)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for place in (hooks, found / ".git" / "hooks"):
        for name in ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
            (place / name).write_text(program.read_text())
            (place / name).chmod(0o700)
    (found / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    with open(found / ".git" / "config", "a") as config:
        config.write(CONFIG.format(program=program, outside=tmp_path))
        config.write("[extensions]\n    partialClone = origin\n")
    return found


def mark_of(folder: Path) -> Path:
    return folder.parent / "mark"


def test_git_itself_would_run_them(folder: Path) -> None:
    (folder / "main.py").write_text("second\n")
    subprocess.run(["git", "-C", str(folder), "status"], capture_output=True)
    assert mark_of(folder).exists()


def test_reading_the_code_runs_and_changes_nothing(folder: Path) -> None:
    (folder / "new.py").write_text("new\n")
    os.utime(folder / "main.py")
    before = state_of(folder)
    found = code_of(Project(folder=str(folder)))
    assert found.commit and found.is_dirty is True
    assert blob(folder, found.files["main.py"], 1000) == b"first\n"
    assert not mark_of(folder).exists()
    assert state_of(folder) == before


def test_a_missing_object_is_not_fetched(folder: Path) -> None:
    name = git(folder, "hash-object", "--no-filters", "main.py")
    (folder / ".git" / "objects" / name[:2] / name[2:]).unlink()
    mark_of(folder).unlink(missing_ok=True)
    before = state_of(folder)
    assert blob(folder, name, 1000) is None
    assert blob(folder, "0" * 40, 1000) is None
    assert code_of(Project(folder=str(folder))).is_dirty is False
    assert not mark_of(folder).exists()
    assert state_of(folder) == before


def test_a_working_tree_elsewhere_is_not_the_projects(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    git(folder, "config", "core.worktree", str(tmp_path / "elsewhere"))
    assert code_of(Project(folder=str(folder))).commit == ""


def test_a_bare_repository_in_the_folder_is_not_read(tmp_path: Path, folder: Path) -> None:
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", "--no-local", str(folder), str(bare))
    (bare / "main.py").write_text("first\n")
    assert code_of(Project(folder=str(bare))).commit == ""


def test_an_object_with_another_content_is_not_used(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD:main.py")
    other = git(folder, "rev-parse", "HEAD:prompt.md")
    paths = [folder / ".git" / "objects" / name[:2] / name[2:] for name in (first, other)]
    paths[0].unlink()
    paths[0].write_bytes(paths[1].read_bytes())
    assert blob(folder, first, 1000) is None
    assert blob(folder, other, 3) is None


def test_a_forged_record_does_not_show_other_files_of_the_repository(tmp_path: Path) -> None:
    folder, project = tmp_path / "code", Project(folder=str(tmp_path / "code"))
    commit = committed(folder, main__py="first\n", prompt__yaml="Be brief.\n", __env="KEY=canary\n")
    keys, main = (git(folder, "rev-parse", f"HEAD:{name}") for name in (".env", "main.py"))
    for name in ("main.py", ".env", "../main.py", "prompt.yaml", "new.py"):
        for digest in (keys, "--textconv", "HEAD:.env", commit, main if name != "main.py" else keys):
            forged = RecordedCode(files={name: digest}, commit=commit)
            assert difference(forged, project, name).before is None
    real = RecordedCode(files={"main.py": main})
    assert difference(real, project, "main.py").before == "first\n"
    git(folder, "rm", "-q", "main.py")
    git(folder, "commit", "-q", "-m", "removed")
    assert difference(real, project, "main.py").before is None
    for option in ("--output=x", "HEAD~1", commit[:7], "HEAD^{tree}"):
        assert (
            difference(RecordedCode(files={"main.py": main}, commit=option), project, "main.py").before
            is None
        )
    real.commit = commit
    assert difference(real, project, "main.py").before == "first\n"
