"""Launches that are refused, in the browser and at the terminal."""

import shutil
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.test import Client
from django.urls import reverse

from tests.terminal import Terminal
from tests.views.forking import filled
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, Location, Project


@dataclass(frozen=True, slots=True)
class Refusing:
    """A browser and a terminal that have to refuse the same launches."""

    client: Client
    shell: Terminal

    def both(self, command: str, checkpoint: Checkpoint, *arguments: str, **fields: Any) -> str:
        """Return the terminal's error, which the page of the same launch must show too. No job is created.

        ``arguments`` are those of the command, ``fields`` change the form; ``a__b`` means ``a:b``.
        """
        jobs = Job.objects.count()
        error = self.terminal(command, name_of(checkpoint), *arguments)
        assert error and error in self.browser(command, checkpoint, **fields)
        assert Job.objects.count() == jobs
        return error

    def terminal(self, command: str, target: str, *arguments: str) -> str:
        """Return the error of the command."""
        return str(self.shell.refused(command, target, *arguments)["error"])

    def browser(self, command: str, checkpoint: Checkpoint, **fields: Any) -> str:
        """Return the page after its form was sent."""
        name = "fork" if command == "sweep" else command
        sent = filled(self.client, checkpoint, name, **fields)
        sent.pop("accept-hidden", None)
        return self.sent("new-sweep" if command == "sweep" else command, checkpoint.pk, sent)

    def new_run(self, location: Location, *arguments: str, path: str = "", **fields: str) -> str:
        """Return the terminal's error for a new run, which its page must show too."""
        error = self.terminal("run", path or location.path, *arguments)
        sent = {"key": str(uuid4())} | {key.replace("__", ":"): text for key, text in fields.items()}
        assert error and error in self.sent("new-run", location.uid, sent)
        assert not Job.objects.exists()
        return error

    def sent(self, url_name: str, key: object, sent: dict[str, Any]) -> str:
        """Send the form and return the page that refuses it."""
        answer = self.client.post(reverse(url_name, args=[key]), sent)
        assert answer.status_code == 422
        return unescape(answer.content.decode())


def name_of(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"


def pruned(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint after its file was deleted."""
    shutil.rmtree(Path(checkpoint.location.path) / "main")
    import_location(checkpoint.location)
    checkpoint.refresh_from_db()
    assert checkpoint.state == Checkpoint.State.PRUNED
    return checkpoint


def project_of(location: Location) -> Project:
    assert location.project
    return location.project
