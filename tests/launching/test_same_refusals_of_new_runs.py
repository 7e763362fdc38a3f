"""The browser and the terminal refuse the same sweep and the same new run with the same message."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forms.samples import task
from tests.launching.refused import Refusing, project_of, pruned
from tests.views.forking import CREW, checked, stored
from viewer.models import Checkpoint, Location, PreflightCheck, Project

pytestmark = pytest.mark.django_db
REDACTED = {**CREW, "tasks": [task(1, "The key is sk-canary0123456789abcdefghij"), task(2)]}
YEARS = ("--vary", "year=[1, 2]")


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    checkpoint = stored(location, CREW)
    checked(checkpoint)
    return checkpoint


def test_a_sweep_with_too_many_variations_is_refused(refusing: Refusing, checkpoint: Checkpoint) -> None:
    years = json.dumps(list(range(21)))
    error = refusing.both("sweep", checkpoint, "--vary", f"year={years}", **{"vary-input__year": years})
    assert "21 branches" in error


def test_a_sweep_that_varies_nothing_is_refused(refusing: Refusing, checkpoint: Checkpoint) -> None:
    refusing.both("sweep", checkpoint)


def test_a_sweep_to_an_invalid_branch_is_refused(refusing: Refusing, checkpoint: Checkpoint) -> None:
    fields = {"vary-input__year": "[1, 2]", "branch": "../up"}
    refusing.both("sweep", checkpoint, *YEARS, "--branch", "../up", **fields)


def test_a_sweep_of_redacted_parts_is_refused(refusing: Refusing, location: Location) -> None:
    checkpoint = pruned(stored(location, REDACTED))
    checked(checkpoint)
    error = refusing.both("sweep", checkpoint, *YEARS, **{"vary-input__year": "[1, 2]"})
    assert "Fork it once" in error


def test_a_new_run_at_a_file_that_is_not_a_store_is_refused(
    refusing: Refusing, location: Location, settings: Any
) -> None:
    folder = Path(project_of(location).folder)
    settings.CHECKPOINT_ROOTS = [folder]
    (folder / "notes.txt").write_text("not a store")
    arguments = ("--project", str(folder), "--entrypoint", "crew:build")
    path = str(folder / "notes.txt")
    refusing.new_run(location, *arguments, path=path, entry_point="crew:build", new_location="notes.txt")
    assert not PreflightCheck.objects.exists()


@pytest.mark.usefixtures("checkpoint")
def test_a_new_run_at_a_replaced_location_is_refused(refusing: Refusing, location: Location) -> None:
    folder = Path(location.path)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    arguments = ("--project", project_of(location).folder, "--entrypoint", "crew:build")
    error = refusing.new_run(location, *arguments, entry_point="crew:build")
    assert "was replaced after it was added" in error


def test_a_new_run_at_another_projects_location_is_refused(
    refusing: Refusing, location: Location, tmp_path: Path
) -> None:
    mine, theirs = project_of(location), Project.objects.create(folder=str(tmp_path), interpreter="/bin/sh")
    path = tmp_path / "theirs"
    path.mkdir()
    Location.objects.create(path=str(path), store_kind=Location.StoreKind.JSON, project=theirs)
    arguments = ("--project", mine.folder, "--python", mine.interpreter, "--entrypoint", "crew:build")
    fields = {"entry_point": "crew:build", "new_location": str(path)}
    error = refusing.new_run(location, *arguments, path=str(path), **fields)
    assert "belong to another project" in error


def test_an_agent_without_a_prompt_is_refused(refusing: Refusing, location: Location) -> None:
    project = project_of(location)
    (Path(project.folder) / "agent.py").write_text("from crewai import Agent\ndef writer() -> Agent: ...\n")
    project.entry_points = ["agent:writer"]
    project.save()
    fields = {"entry_point": "agent:writer", "input__messages": ""}
    error = refusing.new_run(location, "--entrypoint", "agent:writer", **fields)
    assert error == "Enter a prompt for the agent."
