"""The browser and the terminal refuse the same launch with the same message."""

import json
import os
import time
from html import unescape
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests.forms.samples import task
from tests.launching.refused import browser, name_of, project_of, pruned, terminal
from tests.views.forking import CREW, FLOW, filled, looked, page, stored
from viewer.importing import import_location, stored_contents
from viewer.launching import start
from viewer.launching.fork import fork
from viewer.launching.preview.findings import effects_refusal
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import ForkRequest, ResumeRequest
from viewer.launching.resume import resume
from viewer.models import DayLimits, Job, Location, Project

pytestmark = pytest.mark.django_db
FINISHED = {**CREW, "tasks": [task(1, "The research"), task(2, "The article")]}
REDACTED = {**CREW, "tasks": [task(1, "The key is sk-canary0123456789abcdefghij"), task(2)]}
EFFECT = {"kind": "import", "name": "helper", "detail": "a tool", "digest": "d", "key": "k"}


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
    from viewer.jobs.execution.starting import start as job_start
    from viewer.messages.message import plain_text

    checkpoint = stored(location, CREW)
    monkeypatch.setattr(job_start, "conflict_of", lambda _: plain_text("It is in a protected folder."))
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
@pytest.mark.parametrize("command", ["fork", "resume"])
@pytest.mark.parametrize(
    ("age", "message"), [(0, "still being written"), (100_000, "cannot be read at its location any more")]
)
def test_a_truncated_checkpoint_is_refused(
    client: Client,
    location: Location,
    capsys: pytest.CaptureFixture[str],
    command: str,
    age: int,
    message: str,
) -> None:
    checkpoint = stored(location, CREW)
    file = Path(location.path) / checkpoint.source_key
    file.write_text(file.read_text()[:100])
    os.utime(file, (time.time() - age, time.time() - age))
    error = terminal(capsys, command, name_of(checkpoint))
    assert message in error
    assert error in browser(client, checkpoint, command)
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_pruned_checkpoint_without_the_projects_code_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = pruned(stored(location, CREW))
    error = terminal(capsys, command, name_of(checkpoint), "--entrypoint", "", "--accept-hidden")
    assert "needs the project's own code" in error
    assert error in browser(client, checkpoint, command, entry_point="")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_missing_interpreter_is_refused(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    sent = filled(client, checkpoint, command)
    Path(project_of(location).interpreter).unlink()
    error = terminal(capsys, command, name_of(checkpoint))
    assert project_of(location).interpreter in error
    answer = client.post(page(checkpoint, command), sent)
    assert answer.status_code == 422 and error in unescape(answer.content.decode())
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_replaced_location_is_refused_until_a_person_names_it_again(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = stored(location, CREW)
    looked(checkpoint)
    sent = filled(client, checkpoint, command)
    folder = Path(location.path)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    import_location(location)
    answer = client.post(page(checkpoint, command), sent)
    assert answer.status_code == 422 and "was replaced since it was added" in answer.content.decode()
    # At the terminal, the path means what is there now, which lacks the checkpoint.
    error = terminal(capsys, command, name_of(checkpoint), "--entrypoint", "", "--accept-hidden")
    assert "This checkpoint was pruned at its location" in error
    assert error in browser(client, checkpoint, command, entry_point="")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_reached_limit_refuses_nothing_and_is_named(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    used = {"status": Job.Status.SUCCEEDED, "started_at": timezone.now(), "ended_at": timezone.now()}
    project = project_of(location)
    Job.objects.create(kind="fork", location=location, project=project, branch="x", tokens=9, **used)
    DayLimits.change({"tokens": 9})
    words = "Waiting for a limit: the daily limit of 9 tokens for all jobs is reached until"
    first, second = stored(location, CREW), stored(location, {**CREW, "name": "other"})
    call_command("checkpoints", command, name_of(first))
    assert words in capsys.readouterr().out
    looked(second)
    changes = {"branch": "fork/other"} if command == "fork" else {}
    Job.objects.unfinished().update(status=Job.Status.CANCELLED)
    assert client.post(page(second, command), filled(client, second, command, **changes)).status_code == 302
    job = Job.objects.unfinished().get()
    assert words.removeprefix("Waiting ") in client.get(job.get_absolute_url()).content.decode()


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("command", ["fork", "resume"])
def test_the_browser_refuses_an_unconfirmed_project_and_the_terminal_confirms_it(
    client: Client, location: Location, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    checkpoint = stored(location, CREW)
    sent = filled(client, checkpoint, command)
    Project.objects.update(confirmed_at=None)
    answer = client.post(page(checkpoint, command), sent)
    assert answer.status_code == 422 and "is not confirmed" in answer.content.decode()
    # Neither the plan nor a refused edit is a permission to run code.
    call_command("checkpoints", command, name_of(checkpoint), "--plan")
    terminal(capsys, "fork", name_of(checkpoint), "--branch", "main")
    assert not Project.objects.get().is_confirmed and not Job.objects.exists()
    call_command("checkpoints", command, name_of(checkpoint))
    assert Project.objects.get().is_confirmed and Job.objects.count() == 1


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
    answer = client.post(page(checkpoint, name), sent)
    assert answer.status_code == 422 and str(refused.value) in unescape(answer.content.decode())
    assert not Job.objects.exists()
