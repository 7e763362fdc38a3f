"""A checkpoint that is nested too deeply to be decoded is reported as such on every page."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.terminal import Terminal
from tests.views.forking import CREW, stored
from viewer.models import Checkpoint, Job, Location
from viewer.records import bodies as stored_module

TABS = ("overview", "tasks", "inputs", "state", "events", "raw")


def nested(levels: int) -> Any:
    """Return nested lists whose brackets are not adjacent."""
    value: Any = 1
    for _level in range(levels):
        value = [value, 1]
    return value


# The decoder's recursion limit is reached earlier in a request than in an import.
@pytest.fixture(params=[300, 700, 860])
def deep(request: pytest.FixtureRequest, location: Location) -> Checkpoint:
    return stored(location, {**CREW, "checkpoint_inputs": {"topic": nested(request.param)}})


@pytest.mark.parametrize("tab", TABS)
def test_the_tabs_show_the_reason(runner: Client, deep: Checkpoint, tab: str) -> None:
    page = runner.get(f"{deep.run.get_absolute_url()}?at={deep.checkpoint_id}&tab={tab}")
    assert page.status_code == 200
    assert "too large or too deeply nested" in page.content.decode()
    assert runner.get(reverse("checkpoint-raw", args=[deep.pk])).status_code == 200


@pytest.mark.parametrize("form", ["fork", "resume", "new-sweep"])
def test_it_cannot_be_forked_or_resumed(runner: Client, deep: Checkpoint, form: str) -> None:
    address = reverse(form, args=[deep.pk])
    assert runner.get(address).status_code == 200
    assert runner.post(address, {"branch": "what-if", "start": "now"}).status_code == 422
    assert not Job.objects.exists()


def test_the_terminal_prints_what_the_row_has(deep: Checkpoint, terminal: Terminal) -> None:
    document = terminal.document("info", f"{deep.location.path}#{deep.checkpoint_id}")
    assert document["id"] == deep.checkpoint_id


def test_its_neighbours_are_shown(runner: Client, deep: Checkpoint) -> None:
    beside = stored(deep.location, CREW)
    page = runner.get(f"{beside.run.get_absolute_url()}?at={beside.checkpoint_id}&tab=inputs")
    assert "too large or too deeply nested" not in page.content.decode() and "topic" in page.content.decode()


@pytest.mark.parametrize("tab", TABS)
def test_a_checkpoint_too_large_to_show_can_be_downloaded(
    runner: Client, location: Location, settings: Settings, tab: str
) -> None:
    large = stored(location, {**CREW, "checkpoint_inputs": {"topic": "word " * 10_000}})
    settings.CHECKPOINT_MAX_SHOWN_BYTES = 20_000
    page = runner.get(f"{large.run.get_absolute_url()}?at={large.checkpoint_id}&tab={tab}").content.decode()
    assert "too large or too deeply nested" in page and "word word word" not in page
    answer = runner.get(reverse("checkpoint-raw", args=[large.pk]))
    assert answer.content.count(b"word ") == 10_000


def test_a_checkpoint_with_too_many_values_is_not_decoded(
    runner: Client, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = stored(location, {**CREW, "checkpoint_inputs": {"topic": [{}] * 10_000}})
    monkeypatch.setattr(stored_module, "MAX_MEMORY_OF_VALUES", 1_000_000)
    page = runner.get(f"{many.run.get_absolute_url()}?at={many.checkpoint_id}").content.decode()
    assert "too large or too deeply nested" in page
