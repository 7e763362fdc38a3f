"""The browser and the terminal refuse the same sweep and the same new run with the same message."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.forms.samples import task
from tests.launching.refused import name_of, new_run, project_of, pruned, sweep, terminal
from tests.views.forking import CREW, filled, looked, stored
from viewer.models import Job, Location, PreflightCheck, Project

pytestmark = pytest.mark.django_db
REDACTED = {**CREW, "tasks": [task(1, "The key is sk-canary0123456789abcdefghij"), task(2)]}


@pytest.mark.usefixtures("person")
def test_a_sweep_with_too_many_variations_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    years = list(range(21))
    for command in ("sweep", "vary"):
        error = terminal(capsys, command, name_of(checkpoint), "--vary", f"year={years}")
        assert "21 branches" in error
    address = reverse("new-sweep", args=[checkpoint.pk])
    sent = filled(client, checkpoint) | {"vary-input:year": json.dumps(years)}
    assert error in unescape(client.post(address, sent).content.decode())
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_new_run_at_a_file_that_is_not_a_store_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    assert location.project
    folder = Path(location.project.folder)
    settings.CHECKPOINT_ROOTS = [folder]
    (folder / "notes.txt").write_text("not a store")
    project = ("--project", str(folder), "--entrypoint", "crew:build")
    error = terminal(capsys, "run", str(folder / "notes.txt"), *project)
    sent = {"entry_point": "crew:build", "place": "notes.txt", "key": "0f5b5d5e-4b3c-4f0a-9f0e-000000000001"}
    answer = client.post(reverse("new-run", args=[location.uid]), sent)
    assert answer.status_code == 422 and error in unescape(answer.content.decode())
    assert not Job.objects.exists() and not PreflightCheck.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_sweep_that_varies_nothing_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    error = terminal(capsys, "sweep", name_of(checkpoint))
    assert error and error in sweep(client, checkpoint)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_sweep_to_a_branch_that_is_taken_or_invalid_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    error = terminal(capsys, "sweep", name_of(checkpoint), "--vary", "year=[1, 2]", "--branch", "../up")
    assert error and error in sweep(client, checkpoint, branch="../up", **{"vary-input:year": "[1, 2]"})
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_sweep_of_redacted_parts_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = pruned(stored(location, REDACTED))
    looked(checkpoint)
    error = terminal(capsys, "sweep", name_of(checkpoint), "--vary", "year=[1, 2]")
    assert "Fork it once" in error
    assert error in sweep(client, checkpoint, **{"vary-input:year": "[1, 2]"})
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_new_run_at_a_replaced_location_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(location, CREW)
    folder = Path(location.path)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    project = ("--project", project_of(location).folder, "--entrypoint", "crew:build")
    error = terminal(capsys, "run", location.path, *project)
    assert "was replaced since it was added" in error
    assert error in new_run(client, location, entry_point="crew:build")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_new_run_at_another_projects_location_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    theirs = Project.objects.create(folder=str(tmp_path), interpreter="/bin/sh")
    (tmp_path / "theirs").mkdir()
    path = str(tmp_path / "theirs")
    Location.objects.create(path=path, store_kind=Location.StoreKind.JSON, project=theirs)
    mine = project_of(location)
    project = ("--project", mine.folder, "--python", mine.interpreter, "--entrypoint", "crew:build")
    error = terminal(capsys, "run", path, *project)
    assert "belong to another project" in error
    assert error in new_run(client, location, entry_point="crew:build", place=path)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_an_agent_without_a_prompt_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    project = project_of(location)
    (Path(project.folder) / "agent.py").write_text("from crewai import Agent\ndef writer() -> Agent: ...\n")
    project.entry_points = ["agent:writer"]
    project.save()
    error = terminal(capsys, "run", location.path, "--entrypoint", "agent:writer")
    assert error == "Say what the agent is asked."
    assert error in new_run(client, location, entry_point="agent:writer", **{"input:messages": ""})
    assert not Job.objects.exists()
