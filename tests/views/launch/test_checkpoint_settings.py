"""The form fields for which events write a checkpoint and how many checkpoints stay."""

import re

import pytest
from django.test import Client

from tests.views.forking import CREW, filled, page, stored
from viewer.models import Checkpoint, Job, Location

CHOSEN = {"checkpoint_events": ["task_started", "task_completed"], "max_checkpoints": "2"}


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_the_chosen_settings_are_in_the_request(runner: Client, checkpoint: Checkpoint, kind: str) -> None:
    runner.post(page(checkpoint, kind), filled(runner, checkpoint, kind) | CHOSEN)
    chosen = {"events": ["task_started", "task_completed"], "max_checkpoints": 2}
    assert Job.objects.get().request["options"]["checkpoints"] == chosen


def test_without_a_choice_the_settings_of_the_checkpoint_apply(runner: Client, location: Location) -> None:
    start = stored(location, {**CREW, "checkpoint": {"on_events": ["task_failed"]}})
    assert "unchanged: task failed" in runner.get(page(start)).content.decode()
    runner.post(page(start), filled(runner, start))
    assert "checkpoints" not in Job.objects.get().request["options"]


def test_an_invalid_choice_shows_a_field_error_and_starts_nothing(
    runner: Client, checkpoint: Checkpoint
) -> None:
    sent = filled(runner, checkpoint) | {"checkpoint_events": ["task_dreamt"], "max_checkpoints": "0"}
    answer = runner.post(page(checkpoint), sent)
    assert answer.status_code == 422
    for field in ("checkpoint-events", "max-checkpoints"):
        assert f'href="#{field}"' in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_the_form_warns_about_a_choice_before_the_start(
    runner: Client, checkpoint: Checkpoint, kind: str
) -> None:
    sent = filled(runner, checkpoint, kind) | {"checkpoint_events": ["*"], "max_checkpoints": ""}

    def live(**changes: str) -> str:
        plan, headers = page(checkpoint, f"{kind}-plan"), {"HX-Request": "true"}
        return runner.post(plan, sent | changes, headers=headers).content.decode()

    summary = r'id="checkpoints-summary" hx-swap-oob="true">\s*at every event\.\s*<span[^>]*>This writes many'
    assert re.search(summary, live())
    assert "This writes many" not in live(max_checkpoints="5")
    assert "whole number of 1 or more" in live(max_checkpoints="0")
