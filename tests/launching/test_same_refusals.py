"""The browser and the terminal refuse the same launch with the same message."""

import json
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.forms.samples import task
from tests.views.forking import CREW, FLOW, filled, looked, made_location, page, stored
from viewer.importing import import_location, stored_contents
from viewer.launching import start
from viewer.launching.findings import effects_refusal
from viewer.launching.fork import fork
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import ForkRequest, ResumeRequest
from viewer.launching.resume import resume
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project

pytestmark = pytest.mark.django_db
FINISHED = {**CREW, "tasks": [task(1, "The research"), task(2, "The article")]}
REDACTED = {**CREW, "tasks": [task(1, "The key is sk-canary0123456789abcdefghij"), task(2)]}
EFFECT = {"kind": "import", "name": "helper", "detail": "a tool", "digest": "d", "key": "k"}


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return made_location(tmp_path / "newsroom")


@pytest.fixture
def person(client: Client) -> User:
    user = User.objects.create_superuser("ada", password="secret")
    client.force_login(user)
    return user


def browser(client: Client, checkpoint: Checkpoint, name: str, **changes: str) -> str:
    """The page after its form was sent, which was refused."""
    sent = filled(client, checkpoint, name) | {key.replace("__", ":"): text for key, text in changes.items()}
    sent.pop("accept-hidden", None)
    answer = client.post(reverse(name, args=[checkpoint.pk]), sent)
    assert answer.status_code == 422
    return unescape(answer.content.decode())


def terminal(capsys: pytest.CaptureFixture[str], command: str, target: str, *arguments: str) -> str:
    """The error of the command, which was refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        call_command("checkpoints", command, target, *arguments, "--json")
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return str(document["error"])


def name_of(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"


def pruned(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint after its file was deleted."""
    shutil.rmtree(Path(checkpoint.location.path) / "main")
    import_location(checkpoint.location)
    checkpoint.refresh_from_db()
    assert checkpoint.state == Checkpoint.State.PRUNED
    return checkpoint


@pytest.mark.usefixtures("person")
def test_resuming_a_finished_crew_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, FINISHED)
    looked(checkpoint)
    error = terminal(capsys, "resume", name_of(checkpoint))
    assert "Nothing is left to run" in error
    assert error in browser(client, checkpoint, "resume")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("branch", ["main", "../up"])
def test_a_branch_that_is_taken_or_invalid_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], branch: str
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    error = terminal(capsys, "fork", name_of(checkpoint), "--branch", branch)
    assert error and error in browser(client, checkpoint, "fork", branch=branch)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_resuming_a_branch_that_a_job_writes_to_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    call_command("checkpoints", "resume", name_of(checkpoint))
    error = terminal(capsys, "resume", name_of(checkpoint))
    assert "Another job writes to branch" in error
    assert error in browser(client, checkpoint, "resume")
    assert Job.objects.count() == 1


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_redacted_parts_have_to_be_accepted(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = pruned(stored(location, REDACTED))
    looked(checkpoint)
    error = terminal(capsys, command, name_of(checkpoint))
    assert "lacks what was redacted in" in error and "the output of task 1" in error
    assert error in browser(client, checkpoint, command)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_flow_without_its_code_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = stored(location, FLOW)
    error = terminal(capsys, command, name_of(checkpoint), "--entrypoint", "")
    assert error and error in browser(client, checkpoint, command, entry_point="")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_effects_have_to_be_accepted(
    client: Client,
    location: Location,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint, effects=[EFFECT], is_complete=False)
    monkeypatch.setattr(start, "unaccepted_effects", lambda *_: [EFFECT])
    error = terminal(capsys, command, name_of(checkpoint))
    assert error == effects_refusal().message
    assert error in browser(client, checkpoint, command)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_conflict_of_edits_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    error = terminal(capsys, "fork", name_of(checkpoint), "--again", "1", "--output", "1=Mine")
    assert "Choose one." in error
    sent = filled(client, checkpoint) | {"again": ["task-1"], "output:task-1": "Mine"}
    assert error in unescape(client.post(page(checkpoint), sent).content.decode())
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_the_project_inside_a_protected_folder_is_refused(
    client: Client,
    location: Location,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from viewer.launching import refusals
    from viewer.messages.message import plain_text

    checkpoint = stored(location, CREW)
    monkeypatch.setattr(refusals, "conflict_of", lambda _: plain_text("It is in a protected folder."))
    for command in ("fork", "resume"):
        error = terminal(capsys, command, name_of(checkpoint))
        assert error == "It is in a protected folder."
        assert error in browser(client, checkpoint, command)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
def test_a_stale_output_is_shown_in_the_same_plan(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stored(location, CREW)
    call_command("checkpoints", "fork", name_of(checkpoint), "--input", 'topic="tea"', "--plan", "--json")
    steps = json.loads(capsys.readouterr().out)["plan"]
    assert [step["stale"] for step in steps] == [["topic"], ["topic"], []]
    sent = filled(client, checkpoint) | {"input:topic": "tea"}
    text = client.post(page(checkpoint, "fork-plan"), sent).content.decode()
    assert text.count("step-stale") == 2


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
@pytest.mark.parametrize("type_", [ForkRequest, ResumeRequest])
def test_a_project_that_is_not_confirmed_is_refused(
    client: Client, location: Location, type_: type[ForkRequest]
) -> None:
    checkpoint = stored(location, CREW)
    name = "fork" if type_ is ForkRequest else "resume"
    sent = filled(client, checkpoint, name)
    Project.objects.update(confirmed_at=None)
    checkpoint.refresh_from_db()
    contents, project = stored_contents(checkpoint), Project.objects.get()
    request = type_(checkpoint=checkpoint, contents=contents, project=project, branch="fork/new")
    with pytest.raises(LaunchRefused, match="is not confirmed") as refused:
        fork(request) if name == "fork" else resume(request)  # type: ignore[arg-type]
    answer = client.post(reverse(name, args=[checkpoint.pk]), sent)
    assert answer.status_code == 422 and str(refused.value) in unescape(answer.content.decode())
    assert not Job.objects.exists()
