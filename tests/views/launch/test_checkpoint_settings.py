"""The form fields for which events write a checkpoint and how many checkpoints stay."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.views.forking import CREW, filled, page, stored
from viewer.models import Checkpoint, Job, Location

pytestmark = pytest.mark.django_db
CHOSEN = {"checkpoint_events": ["task_started", "task_completed"], "max_checkpoints": "2"}


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_the_chosen_settings_are_in_the_request(
    client: Client, person: User, checkpoint: Checkpoint, kind: str
) -> None:
    client.post(page(checkpoint, kind), filled(client, checkpoint, kind) | CHOSEN)
    chosen = {"events": ["task_started", "task_completed"], "max_checkpoints": 2}
    assert Job.objects.get().request["options"]["checkpoints"] == chosen


def test_without_a_choice_the_settings_of_the_checkpoint_apply(
    client: Client, person: User, location: Location
) -> None:
    start = stored(location, {**CREW, "checkpoint": {"on_events": ["task_failed"]}})
    assert "unchanged: task failed" in client.get(page(start)).content.decode()
    client.post(page(start), filled(client, start))
    assert "checkpoints" not in Job.objects.get().request["options"]


def test_an_invalid_choice_shows_a_field_error_and_starts_nothing(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint) | {"checkpoint_events": ["task_dreamt"], "max_checkpoints": "0"}
    answer = client.post(page(checkpoint), sent)
    assert answer.status_code == 422
    for field in ("checkpoint-events", "max-checkpoints"):
        assert f'href="#{field}"' in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_the_form_warns_about_a_choice_before_the_start(
    client: Client, person: User, checkpoint: Checkpoint, kind: str
) -> None:
    sent = filled(client, checkpoint, kind) | {"checkpoint_events": ["*"], "max_checkpoints": ""}

    def live(**changes: str) -> str:
        plan, headers = page(checkpoint, f"{kind}-plan"), {"HX-Request": "true"}
        return client.post(plan, sent | changes, headers=headers).content.decode()

    summary = r'id="checkpoints-summary" hx-swap-oob="true">\s*at every event\.\s*<span[^>]*>This writes many'
    assert re.search(summary, live())
    assert "This writes many" not in live(max_checkpoints="5")
    assert "whole number of at least 1" in live(max_checkpoints="0")
