"""The browser and the terminal refuse the same fork and the same resume with the same message."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.forms.samples import task
from tests.launching.refused import Refusing, name_of, project_of, pruned
from tests.views.forking import CREW, FLOW, checked, filled, page, stored
from viewer.host.jobs import environment
from viewer.host.locations.importing import import_location
from viewer.launching import start
from viewer.launching.preview import preview_launch
from viewer.launching.refusals import LaunchRefused, effects_refusal
from viewer.launching.requests import ForkRequest, ResumeRequest
from viewer.messages.message import plain_text
from viewer.models import Checkpoint, DayLimits, Job, Location, Project
from viewer.records.bodies import stored_contents
from viewer.redaction import MARKER

pytestmark = pytest.mark.django_db
FINISHED = {**CREW, "tasks": [task(1, "The research"), task(2, "The article")]}
REDACTED = {**CREW, "tasks": [task(1, "The key is sk-canary0123456789abcdefghij"), task(2)]}
EFFECT = {"kind": "import", "name": "helper", "detail": "a tool", "digest": "d", "key": "k"}


def ready(location: Location, entity: dict[str, Any]) -> Checkpoint:
    """Return a stored checkpoint of this entity after its preflight check."""
    checkpoint = stored(location, entity)
    checked(checkpoint)
    return checkpoint


def test_resuming_a_finished_crew_is_refused(refusing: Refusing, location: Location) -> None:
    checkpoint = ready(location, FINISHED)
    assert "Nothing is left to run" in refusing.both("resume", checkpoint)


@pytest.mark.parametrize("branch", ["main", "../up"])
def test_an_existing_or_invalid_branch_is_refused(
    refusing: Refusing, location: Location, branch: str
) -> None:
    checkpoint = ready(location, CREW)
    refusing.both("fork", checkpoint, "--branch", branch, branch=branch)


def test_resuming_a_branch_that_a_job_writes_to_is_refused(refusing: Refusing, location: Location) -> None:
    checkpoint = ready(location, CREW)
    call_command("checkpoints", "resume", name_of(checkpoint))
    assert "Another job writes to branch" in refusing.both("resume", checkpoint)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fork", "--input", "topic=caf\udce9"),
        ("fork", "--input", 'caf\udce9="tea"'),
        ("fork", "--output", "1=caf\udce9"),
        ("sweep", "--vary-output", "1=caf\udce9", "--as-it-is", "1"),
    ],
)
def test_values_that_are_not_utf8_start_nothing(
    refusing: Refusing, location: Location, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    error = refusing.terminal(command, name_of(ready(location, CREW)), *options)
    assert error.isprintable() and "a text in UTF-8" in error
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("option", "text", "field", "message"),
    [
        ("--at", "2020-01-01T00:00", "start_at", "This time has passed."),
        ("--at", "soon", "start_at", "This is not a valid time."),
        ("--model", "gpt 4", "model:*", "A model's name is one word"),
        ("--limit", "0", "limit_tokens", "This must be a number above 0, or empty for no limit."),
        ("--input", f"the {MARKER}", "input:topic", "replace the whole value"),
        ("--input", f'["{MARKER}"]', "input-json:topic", "replace the whole value"),
        ("--input", '["[r\\u0065dacted]"]', "input-json:topic", "cannot be a value's text."),
        ("--input", "[1e999]", "input-json:topic", "A number in this JSON is too large."),
    ],
)
def test_an_option_has_one_parser(
    refusing: Refusing, location: Location, option: str, text: str, field: str, message: str
) -> None:
    agents = [{"id": number, "role": f"Agent {number}", "llm": {"model": "o3"}} for number in "ab"]
    checkpoint = ready(location, {**CREW, "agents": agents})
    named = {"--limit": "tokens=", "--input": "topic="}.get(option, "")
    assert message in refusing.terminal("fork", name_of(checkpoint), option, named + text)
    assert message in refusing.browser("fork", checkpoint, **{field: text})
    assert not Job.objects.exists()


def test_redacted_parts_have_to_be_accepted(refusing: Refusing, location: Location, command: str) -> None:
    checkpoint = pruned(stored(location, REDACTED))
    checked(checkpoint)
    error = refusing.both(command, checkpoint)
    assert "lacks what was redacted in" in error and "the output of task 1" in error


def test_a_flow_without_its_code_is_refused(refusing: Refusing, location: Location, command: str) -> None:
    refusing.both(command, stored(location, FLOW), "--entrypoint", "", entry_point="")


def test_effects_have_to_be_accepted(
    refusing: Refusing, location: Location, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    checkpoint = stored(location, CREW)
    checked(checkpoint, effects=[EFFECT], is_complete=False)
    monkeypatch.setattr("viewer.host.jobs.preflight.unaccepted_effects", lambda *_: [EFFECT])
    assert refusing.both(command, checkpoint) == effects_refusal().message


def test_a_conflict_of_edits_is_refused(refusing: Refusing, location: Location) -> None:
    checkpoint = ready(location, CREW)
    fields: dict[str, Any] = {"again": ["task-1"], "output__task-1": "Mine"}
    arguments = ("--again", "1", "--output", "1=Mine")
    assert "Choose one." in refusing.both("fork", checkpoint, *arguments, **fields)


def test_the_project_inside_a_protected_folder_is_refused(
    refusing: Refusing, location: Location, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(environment, "conflict_of", lambda _: plain_text("It is in a protected folder."))
    assert refusing.both(command, stored(location, CREW)) == "It is in a protected folder."


def test_a_missing_interpreter_is_refused(refusing: Refusing, location: Location, command: str) -> None:
    checkpoint, interpreter = stored(location, CREW), Path(project_of(location).interpreter)
    checked(checkpoint)
    interpreter.unlink()
    assert str(interpreter) in refusing.both(command, checkpoint)


@pytest.mark.parametrize(
    ("age", "message"), [(0, "still being written"), (100_000, "can no longer be read at its location")]
)
def test_a_truncated_checkpoint_is_refused(
    refusing: Refusing, location: Location, command: str, age: int, message: str
) -> None:
    checkpoint = stored(location, CREW)
    file = Path(location.path) / checkpoint.source_key
    file.write_text(file.read_text()[:100])
    os.utime(file, (time.time() - age, time.time() - age))
    assert message in refusing.both(command, checkpoint)


def test_a_pruned_checkpoint_without_the_projects_code_is_refused(
    refusing: Refusing, location: Location, command: str
) -> None:
    checkpoint = pruned(stored(location, CREW))
    arguments = ("--entrypoint", "", "--accept-hidden")
    assert "needs the project's own code" in refusing.both(command, checkpoint, *arguments, entry_point="")


def test_a_replaced_location_is_refused_until_a_person_names_it_again(
    refusing: Refusing, location: Location, command: str
) -> None:
    checkpoint, folder = stored(location, CREW), Path(location.path)
    checked(checkpoint)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    import_location(location)
    assert "was replaced after it was added" in refusing.browser(command, checkpoint)
    # The terminal imports what is at the path now, which lacks the checkpoint.
    arguments = ("--entrypoint", "", "--accept-hidden")
    assert "pruned at its location" in refusing.both(command, checkpoint, *arguments, entry_point="")


def test_a_reached_limit_refuses_nothing_and_is_named(
    refusing: Refusing, location: Location, command: str
) -> None:
    used = {"status": Job.Status.SUCCEEDED, "started_at": timezone.now(), "ended_at": timezone.now()}
    project, client = project_of(location), refusing.client
    Job.objects.create(kind="fork", location=location, project=project, branch="x", tokens=9, **used)
    DayLimits.change({"tokens": 9})
    text = "Waiting for a limit: the daily limit of 9 tokens for all jobs is reached until"
    checkpoint = ready(location, CREW)
    assert text in refusing.shell.text(command, name_of(checkpoint))
    Job.objects.unfinished().update(status=Job.Status.CANCELLED)
    changes = {"branch": "fork/other"} if command == "fork" else {}
    sent = filled(client, checkpoint, command, **changes)
    assert client.post(page(checkpoint, command), sent).status_code == 302
    job = Job.objects.unfinished().get()
    assert text.removeprefix("Waiting ") in client.get(job.get_absolute_url()).content.decode()


def test_the_browser_refuses_an_unconfirmed_project_and_the_terminal_confirms_it(
    refusing: Refusing, location: Location, command: str
) -> None:
    checkpoint = stored(location, CREW)
    sent = filled(refusing.client, checkpoint, command)
    Project.objects.update(confirmed_at=None)
    assert "is not confirmed" in refusing.sent(command, checkpoint.pk, sent)
    # Neither the plan nor a refused edit is consent to run code.
    call_command("checkpoints", command, name_of(checkpoint), "--plan")
    refusing.terminal("fork", name_of(checkpoint), "--branch", "main")
    assert not Project.objects.get().is_confirmed and not Job.objects.exists()
    call_command("checkpoints", command, name_of(checkpoint))
    assert Project.objects.get().is_confirmed and Job.objects.count() == 1


def test_launching_refuses_a_project_that_is_not_confirmed(location: Location, command: str) -> None:
    checkpoint = stored(location, CREW)
    Project.objects.update(confirmed_at=None)
    values: dict[str, Any] = {
        "checkpoint": checkpoint,
        "contents": stored_contents(checkpoint),
        "project": Project.objects.get(),
        "branch": "fork/new",
    }
    with pytest.raises(LaunchRefused, match="is not confirmed"):
        start.start(preview_launch((ForkRequest if command == "fork" else ResumeRequest)(**values)))
    assert not Job.objects.exists()


def test_a_stale_output_is_shown_in_the_same_plan(refusing: Refusing, location: Location) -> None:
    checkpoint, client = stored(location, CREW), refusing.client
    steps = refusing.shell.document("fork", name_of(checkpoint), "--input", 'topic="tea"', "--plan")["plan"]
    assert [step["stale"] for step in steps] == [["topic"], ["topic"], []]
    sent = filled(client, checkpoint, input__topic="tea")
    text = client.post(page(checkpoint, "fork-plan"), sent).content.decode()
    assert text.count("step-stale") == 2


def test_both_plans_say_how_a_run_will_be_isolated(refusing: Refusing, location: Location) -> None:
    checkpoint, client = stored(location, CREW), refusing.client
    asked = {"launcher": "bubblewrap", "network": "hosts", "allow": ["api.openai.com:443"], "memory_mb": 500}
    Project.objects.get().change_isolation(asked)
    assert refusing.shell.document("fork", name_of(checkpoint), "--plan")["isolation"] == {
        "launcher": "bubblewrap",
        "network": "hosts",
        "hosts": ["api.openai.com:443"],
        "limits": {"memory_mb": 500},
    }
    for text in (
        refusing.shell.text("fork", name_of(checkpoint), "--plan"),
        client.get(page(checkpoint, "fork")).content.decode(),
    ):
        assert "Launcher: bubblewrap" in text and "api.openai.com" in text
