"""Forms that start nothing: invalid edits, unfit projects or checkpoints, and users without the right."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.forking import FLOW, filled, page, stored
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, Location, Project


def test_a_form_without_its_key_starts_nothing(runner: Client, checkpoint: Checkpoint) -> None:
    for key in ("", "x"):
        answer = runner.post(page(checkpoint), filled(runner, checkpoint) | {"key": key})
        assert answer.status_code == 422 and "Some fields are missing" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_plan_that_was_not_shown_does_not_start(runner: Client, checkpoint: Checkpoint) -> None:
    shown = re.search(r'name="shown" value="([^"]+)"', runner.get(page(checkpoint)).content.decode())
    assert shown
    sent = filled(runner, checkpoint) | {"shown": shown[1], "output:task-1": "My research"}
    answer = runner.post(page(checkpoint), sent)
    assert answer.status_code == 422 and "has changed with your last edit" in answer.content.decode()
    assert not Job.objects.exists()
    shown = re.search(r'name="shown" value="([^"]+)"', answer.content.decode())
    assert shown and runner.post(page(checkpoint), sent | {"shown": shown[1]}).status_code == 302


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input:year": "soon"}, "must be a whole number"),
        ({"output:task-2": "{"}, "not valid JSON"),
        ({"output:task-1": "[redacted]"}, "marks a redacted secret"),
        ({"branch": "main"}, "already exists"),
        ({"branch": "../../etc"}, "may not"),
        ({"entry_point": "os:system"}, "no such entry point"),
        ({"again": ["task-1"], "output:task-1": "x"}, "Choose one."),
        ({"again": ["nobody"]}, "has no task"),
    ],
)
def test_invalid_fields_are_refused_and_typed_values_stay(
    runner: Client, checkpoint: Checkpoint, changes: dict[str, Any], said: str
) -> None:
    sent = filled(runner, checkpoint) | {"input:topic": "What I typed"} | changes
    answer = runner.post(page(checkpoint), sent)
    text = answer.content.decode()
    assert answer.status_code == 422 and said in text and "What I typed" in text
    assert re.search(r'id="start-button"[^>]* disabled', text)
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
@pytest.mark.parametrize("how", ["none", "unconfirmed", "changed"])
def test_an_unconfirmed_project_never_starts(
    runner: Client, checkpoint: Checkpoint, name: str, how: str
) -> None:
    sent = filled(runner, checkpoint, name)
    project = Project.objects.get()
    if how == "none":
        Location.objects.update(project=None)
    elif how == "unconfirmed":
        Project.objects.update(confirmed_at=None)
    else:
        project.change(interpreter=project.interpreter, environment_file="", entry_points=["other:Thing"])
    shown = runner.get(page(checkpoint, name))
    project_page = reverse("project", args=[checkpoint.location.uid])
    assert shown.status_code == 302
    assert shown["Location"] == f"{project_page}?next={page(checkpoint, name).replace('/', '%2F')}"
    answer = runner.post(page(checkpoint, name), sent | {"input:topic": "What I typed"})
    assert answer.status_code == 422 and project_page in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
@pytest.mark.parametrize(
    ("state", "text"),
    [
        (Checkpoint.State.WRITING, "still being written"),
        (Checkpoint.State.BROKEN, "can no longer be read"),
    ],
)
def test_a_checkpoint_missing_from_its_location_starts_nothing(
    runner: Client, checkpoint: Checkpoint, name: str, state: str, text: str
) -> None:
    Checkpoint.objects.update(state=state)
    assert text in runner.get(page(checkpoint, name)).content.decode()
    answer = runner.post(page(checkpoint, name), filled(runner, checkpoint, name))
    assert answer.status_code == 422 and text in answer.content.decode()
    assert not Job.objects.exists()


def pruned(checkpoint: Checkpoint) -> Checkpoint:
    Path(checkpoint.source).unlink()
    import_location(checkpoint.location)
    checkpoint.refresh_from_db()
    assert checkpoint.state == Checkpoint.State.PRUNED
    return checkpoint


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_a_pruned_checkpoint_needs_an_entry_point_and_consent_to_redacted_values(
    runner: Client, checkpoint: Checkpoint, name: str
) -> None:
    pruned(checkpoint)
    text = runner.get(page(checkpoint, name)).content.decode()
    assert "the input api_key" in text and re.search(r'id="start-button"[^>]* disabled', text)
    sent = filled(runner, checkpoint, name)
    agreement = sent.pop("accept-hidden")
    for wrong in ({}, {"accept-hidden": "on"}, {"accept-hidden": agreement, "entry_point": ""}):
        answer = runner.post(page(checkpoint, name), sent | wrong)
        assert answer.status_code == 422
    assert "name it under" in answer.content.decode()
    assert not Job.objects.exists()
    assert runner.post(page(checkpoint, name), sent | {"accept-hidden": agreement}).status_code == 302
    assert Job.objects.get().request["checkpoint"]["stored"] is True


def test_a_redacted_input_of_a_pruned_checkpoint_that_is_typed_again_needs_no_consent(
    runner: Client, checkpoint: Checkpoint
) -> None:
    sent = filled(runner, pruned(checkpoint))
    sent.pop("accept-hidden")
    assert runner.post(page(checkpoint), sent | {"input:api_key": "mine"}).status_code == 302
    assert Job.objects.get().request["inputs"] == {"api_key": "mine"}


def test_a_flow_without_its_class_is_refused(runner: Client, location: Location) -> None:
    checkpoint = stored(location, {**FLOW, "name": "Unknown"})
    assert "needs its code" in runner.get(page(checkpoint)).content.decode()
    answer = runner.post(page(checkpoint), filled(runner, checkpoint) | {"entry_point": ""})
    assert answer.status_code == 422
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume", "fork-plan"])
def test_visitors_see_and_start_nothing(checkpoint: Checkpoint, name: str) -> None:
    for answer in (Client().get(page(checkpoint, name)), Client().post(page(checkpoint, name), {})):
        assert answer.status_code == 302 and "/login/" in answer["Location"]
    assert not Job.objects.exists()


def test_a_cross_site_request_starts_nothing(person: User, checkpoint: Checkpoint) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person)
    answer = strict.post(page(checkpoint), filled(strict, checkpoint))
    assert answer.status_code == 403
    assert not Job.objects.exists()
