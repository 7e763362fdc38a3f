"""A folder that another run replaces by a link while a run starts does not lead the new run elsewhere."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.jobs.conftest import MakeJob, finished
from tests.jobs.isolation.conftest import isolate
from tests.jobs.isolation.test_planted_links import NOTHING, reached
from viewer.host.jobs import sandbox
from viewer.host.jobs.sandbox import OpenPaths
from viewer.models import Location, Project

SECRET = "KEY=sk-of-the-user"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user with a file, which neither Forkline nor a project names."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    return folder


@pytest.fixture
def inner(project: Project, victim: Path) -> Path:
    """A folder in the project's, through which the run then tries to reach the victim's file."""
    folder = Path(project.folder) / "inner"
    folder.mkdir()
    given = NOTHING | {
        "read": [
            str(victim / "file"),
            str(folder / "file"),
            "/etc/shadow",
            str(folder.parent / "other/.env"),
        ],
        "write": [str(victim)],
        "replace": [str(victim / "file"), str(folder / "file")],
    }
    (Path(project.folder) / "attack.json").write_text(json.dumps(given))
    return folder


def use(project: Project, location: Location, launcher: str, by: str, inner: Path) -> None:
    """Open the folder to the project's runs."""
    if by == "location":
        Location.objects.filter(pk=location.pk).update(path=str(inner))
    isolate(project, launcher=launcher, **({} if by == "location" else {by: (str(inner),)}))


@pytest.mark.parametrize("by", ["read", "write", "location"])
def test_a_link_that_appears_after_the_paths_were_chosen(
    make_job: MakeJob,
    project: Project,
    location: Location,
    launcher: str,
    victim: Path,
    inner: Path,
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(project, location, launcher, by, inner)
    job, chosen = make_job("attacks.py"), sandbox.open_paths

    def chosen_too_early(*given: object) -> OpenPaths:
        found = chosen(*given)  # type: ignore[arg-type]
        inner.rmdir()
        inner.symlink_to(victim)
        return found

    monkeypatch.setattr(sandbox, "open_paths", chosen_too_early)
    finished(job)
    assert reached(job) == [] and (victim / "file").read_text() == SECRET
    assert [path.name for path in victim.iterdir()] == ["file"]


@pytest.mark.parametrize("to", ["victim", "etc", "other"])
@pytest.mark.parametrize("by", ["read", "write", "location"])
def test_a_link_that_appears_while_bubblewrap_mounts(
    make_job: MakeJob,
    project: Project,
    location: Location,
    victim: Path,
    inner: Path,
    by: str,
    to: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sandbox.launchers()
    other = Path(project.folder) / "other"
    other.mkdir()
    (other / ".env").write_text(SECRET)
    Project.objects.create(folder=str(other), interpreter=project.interpreter)
    use(project, location, "bubblewrap", by, inner)
    # bubblewrap follows a relative link outside as well as in the sandbox that it prepares.
    targets = {"victim": victim, "etc": os.path.relpath("/etc", project.folder), "other": "other"}
    programs = tmp_path / "programs"
    programs.mkdir()
    program, target = programs / "bwrap", targets[to]
    program.write_text(
        f'#!/bin/sh\nrmdir {inner} && ln -s {target} {inner}\nexec {shutil.which("bwrap")} "$@"\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    job = finished(make_job("attacks.py"))
    assert inner.is_symlink()
    assert reached(job) == [] and (victim / "file").read_text() == SECRET
    assert [path.name for path in victim.iterdir()] == ["file"]
    # What is closed covers what was mounted at the other project.
    assert to == "other" or (job.status, job.error.code) == ("failed", "isolation.not_started")
