"""A checkpoint that nests so deep that no page could show it: told in words wherever it is asked for."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.views.forking import CREW, stored
from viewer.models import Checkpoint, Job, Location
from viewer.views.checkpoints import TABS


def nested(levels: int) -> Any:
    """Lists in lists, whose brackets do not stand beside each other."""
    value: Any = 1
    for _level in range(levels):
        value = [value, 1]
    return value


# The decoder's own end is nearer on a page than at an import, which stands less deep in calls itself.
@pytest.fixture(params=[300, 700, 860])
def deep(request: pytest.FixtureRequest, location: Location) -> Checkpoint:
    return stored(location, {**CREW, "checkpoint_inputs": {"topic": nested(request.param)}})


@pytest.mark.parametrize("tab", TABS)
def test_its_tabs_say_so(client: Client, person: User, deep: Checkpoint, tab: str) -> None:
    page = client.get(f"{deep.run.get_absolute_url()}?at={deep.checkpoint_id}&tab={tab}")
    assert page.status_code == 200
    assert "nested so deep" in page.content.decode()
    assert client.get(reverse("checkpoint-raw", args=[deep.pk])).status_code == 200


@pytest.mark.parametrize("form", ["fork", "resume", "vary"])
def test_it_is_not_run(client: Client, person: User, deep: Checkpoint, form: str) -> None:
    address = reverse(form, args=[deep.pk])
    assert client.get(address).status_code == 200
    assert client.post(address, {"branch": "what-if", "start": "now"}).status_code == 422
    assert not Job.objects.exists()


def test_the_terminal_tells_what_its_row_holds(deep: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("checkpoints", "info", f"{deep.location.path}#{deep.checkpoint_id}", "--json")
    assert deep.checkpoint_id in capsys.readouterr().out


def test_its_neighbours_are_shown(client: Client, person: User, deep: Checkpoint) -> None:
    beside = stored(deep.location, CREW)
    page = client.get(f"{beside.run.get_absolute_url()}?at={beside.checkpoint_id}&tab=inputs")
    assert "nested so deep" not in page.content.decode() and "topic" in page.content.decode()
