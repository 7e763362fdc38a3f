"""Launches that are refused, in the browser and at the terminal."""

import json
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.views.forking import filled
from viewer.importing import import_location
from viewer.models import Checkpoint, Location, Project


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


def new_run(client: Client, location: Location, **changes: str) -> str:
    """The page of a new run after its form was sent, which was refused."""
    key = {"key": "0f5b5d5e-4b3c-4f0a-9f0e-000000000001"}
    answer = client.post(reverse("new-run", args=[location.uid]), key | changes)
    assert answer.status_code == 422
    return unescape(answer.content.decode())


def sweep(client: Client, checkpoint: Checkpoint, **changes: str) -> str:
    """The page of a sweep after its form was sent, which was refused."""
    sent = filled(client, checkpoint) | {key.replace("__", ":"): text for key, text in changes.items()}
    answer = client.post(reverse("new-sweep", args=[checkpoint.pk]), sent)
    assert answer.status_code == 422
    return unescape(answer.content.decode())


def project_of(location: Location) -> Project:
    assert location.project
    return location.project
