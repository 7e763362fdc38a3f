"""A submission computes its plan once, in the browser and at the terminal."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from tests.launching.refused import name_of
from tests.launching.test_same_options import checkpoint_of
from tests.terminal import Terminal
from tests.views.forking import CREW, checked, checked_new_run, filled, page, stored
from viewer.engines import engine_of
from viewer.launching.new_run import preview_new_run
from viewer.launching.preview import preview_launch
from viewer.launching.start import preview_publish
from viewer.launching.sweep import preview_sweep
from viewer.models import Checkpoint, Job, Location

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("person"), pytest.mark.postgresql]


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    """A crew's checkpoint whose preflight check has ended."""
    checkpoint = stored(location, CREW)
    checked(checkpoint)
    return checkpoint


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """The number of calls of each preview, and of the engine's plan, in this thread."""
    plan = engine_of(None).plan
    names = {
        one.__code__: one.__name__
        for one in (preview_launch, preview_sweep, preview_new_run, preview_publish, plan)
    }
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code in names:
            found[names[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(before)


def test_a_form_that_starts_a_fork_or_resume_plans_once(
    client: Client, checkpoint: Checkpoint, command: str
) -> None:
    sent = filled(client, checkpoint, command)
    with counted() as calls:
        assert client.post(page(checkpoint, command), sent).status_code == 302
    assert calls == {"preview_launch": 1, "plan": 1}


def test_a_command_that_starts_a_fork_or_resume_plans_once(
    terminal: Terminal, checkpoint: Checkpoint, command: str
) -> None:
    with counted() as calls:
        assert terminal.document(command, name_of(checkpoint))["job"]
    assert calls == {"preview_launch": 1, "plan": 1}


def test_a_refused_form_plans_once(client: Client, checkpoint: Checkpoint) -> None:
    sent = filled(client, checkpoint, branch="main")
    with counted() as calls:
        assert client.post(page(checkpoint), sent).status_code == 422
    assert calls == {"preview_launch": 1, "plan": 1}


def test_a_form_that_starts_a_sweep_plans_each_branch_once(client: Client, checkpoint: Checkpoint) -> None:
    sent = {"key": str(uuid4()), "entry_point": "crew:build", "vary-input:year": "[1, 2]"}
    with counted() as calls:
        assert client.post(reverse("new-sweep", args=[checkpoint.pk]), sent).status_code == 302
    assert calls == {"preview_sweep": 1, "plan": 2}


def test_a_command_that_starts_a_sweep_plans_each_branch_once(
    terminal: Terminal, checkpoint: Checkpoint
) -> None:
    with counted() as calls:
        assert terminal.document("sweep", name_of(checkpoint), "--vary", "year=[1, 2]")["group"]
    assert calls == {"preview_sweep": 1, "plan": 2}


def test_a_form_that_starts_a_new_run_is_previewed_once(client: Client, location: Location) -> None:
    assert location.project
    checked_new_run(location.project, "crew:build")
    sent = {"key": str(uuid4()), "entry_point": "crew:build", "input-more": '{"topic": "tea"}'}
    with counted() as calls:
        assert client.post(reverse("new-run", args=[location.uid]), sent).status_code == 302
    assert calls == {"preview_new_run": 1}
    assert Job.objects.get().kind == Job.Kind.RUN


def test_a_command_that_starts_a_new_run_is_previewed_once(terminal: Terminal, location: Location) -> None:
    with counted() as calls:
        assert terminal.document("run", location.path, "--entrypoint", "crew:build")["job"]
    assert calls == {"preview_new_run": 1}


def test_a_form_that_publishes_a_fork_is_previewed_once(
    client: Client, location: Location, tmp_path: Path
) -> None:
    draft = checkpoint_of("draft", location, tmp_path)
    sent = {"key": str(uuid4()), "into": "new-thread", "thread": "copy", "agreed": "1"}
    with counted() as calls:
        answer = client.post(reverse("publish", args=[draft.pk]), sent)
    assert answer.status_code == 302, re.findall('role="alert">([^<]*)<', answer.content.decode())
    assert calls == {"preview_publish": 1}
    assert Job.objects.filter(kind=Job.Kind.PUBLISH).count() == 1


def test_a_command_that_publishes_a_fork_is_previewed_once(
    terminal: Terminal, location: Location, tmp_path: Path
) -> None:
    draft = checkpoint_of("draft", location, tmp_path)
    name = f"{draft.location.path}#{draft.run.key}/{draft.checkpoint_id}"
    assert "1 checkpoint is written to " in terminal.text("publish", name, "--plan")
    with counted() as calls:
        assert terminal.document("publish", name)["job"]
    assert calls == {"preview_publish": 1}
