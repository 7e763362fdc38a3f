"""``file://`` URLs are accepted wherever a path is, unless they name another host."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.real_stores import copy_of
from tests.terminal import Terminal
from viewer.host.locations.adding import open_location, write_target_at
from viewer.host_requests import UnknownLocation
from viewer.models import Location, Project
from viewer.records.accounts import teammate

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A location whose path contains characters that a URL escapes."""
    store = copy_of("1.15.30/json", tmp_path)
    return store.rename(tmp_path / "my störe #1?")


@pytest.mark.parametrize("host", ["", "localhost", "LOCALHOST"])
def test_a_location_is_opened_by_a_file_url(store: Path, host: str) -> None:
    url = store.as_uri().replace("file://", f"file://{host}")
    assert "%20" in url and "%23" in url
    assert open_location(url).path == str(store)
    assert open_location(url.replace("file:", "FILE:")) == open_location(store)


def test_commands_accept_a_file_url(store: Path, terminal: Terminal) -> None:
    call_command("import_checkpoints", store.as_uri())
    assert terminal.document("list", store.as_uri())["location"] == str(store)
    file = next(store.rglob("*35ce9d75_p-none*"))
    for target in (f"{store.as_uri()}#20261120T232826_35ce9d75", file.as_uri()):
        assert terminal.document("info", target)["id"] == "20261120T232826_35ce9d75"


def test_a_write_target_can_be_a_file_url(tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path), interpreter="/usr/bin/python3")
    assert write_target_at((tmp_path / "new store").as_uri(), project).path == str(tmp_path / "new store")
    with pytest.raises(UnknownLocation, match="on the host elsewhere"):
        write_target_at("file://elsewhere/store", project)


def test_the_form_accepts_a_file_url(store: Path, client: Client, settings: Settings) -> None:
    settings.CHECKPOINT_ROOTS = [store.parent.resolve()]
    person: User = teammate("ada", "run")
    client.force_login(person)
    answer = client.post(reverse("location-add"), {"path": f" {store.as_uri()} "})
    assert answer.status_code == 302 and Location.objects.get().path == str(store)
    refused = client.post(reverse("location-add"), {"path": "file://elsewhere/tmp/store"}, follow=True)
    assert "on the host elsewhere" in refused.content.decode()
    outside = client.post(reverse("location-add"), {"path": "file:///etc"}, follow=True)
    assert "CHECKPOINT_ROOTS" in outside.content.decode()


@pytest.mark.parametrize(
    "url",
    [
        "file://elsewhere/tmp",
        "file://127.0.0.1@elsewhere/tmp",
        "file:///tmp?x=1",
        "file:///tmp/%00",
        "file:///tmp/%ff",
        "file://[/tmp",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UnknownLocation):
        open_location(url)
    with pytest.raises(CommandError):
        call_command("checkpoints", "info", url)
    assert not Location.objects.exists()
