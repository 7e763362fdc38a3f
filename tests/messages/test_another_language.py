"""Errors of locations and files are shown in the reader's language."""

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils.translation import override
from pytest_django import Settings

from tests.imported import imported_location
from tests.messages.catalogue import write_catalogue
from tests.terminal import Terminal
from viewer.host.locations.importing import import_location
from viewer.messages.message import plain_text
from viewer.models import Location, Problem

GERMAN = {
    "It has %(size)s bytes. The limit is %(most)s.": ("Mit %(size)s Bytes ist sie größer als %(most)s."),
    "It is still being written. %(why)s": "Sie wird noch geschrieben. %(why)s",
    "Invalid JSON at byte %(byte)s.": "Ab Byte %(byte)s ist sie kein JSON.",
    "Truncated JSON.": "Sie bricht ab.",
    "This location cannot be read: %(reason)s": "Der Ort ist nicht lesbar: %(reason)s",
    "There is nothing at this path.": "Hier ist nichts.",
}


@pytest.fixture(autouse=True)
def german(tmp_path: Path, settings: Settings, db: None) -> None:
    settings.LOCALE_PATHS = [write_catalogue(tmp_path / "locale", "de", GERMAN)]


@pytest.fixture
def location(tmp_path: Path, settings: Settings) -> Location:
    settings.CHECKPOINT_MAX_BYTES = 1_000
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "half.json").write_text('{"entities"')
    (folder / "large.json").write_text("{" + " " * 1_100)
    return imported_location(folder)


def shown(runner: Client, location: Location, language: str) -> str:
    return runner.get(location.get_absolute_url(), headers={"Accept-Language": language}).content.decode()


def test_a_problem_is_translated_with_its_values(runner: Client, location: Location) -> None:
    page = shown(runner, location, "de")
    assert "Mit 1,101 Bytes ist sie größer als 1,000." in page
    assert "Sie wird noch geschrieben. Sie bricht ab." in page
    assert "The limit is 1,000." in shown(runner, location, "en")


def test_the_error_of_a_missing_location_is_translated(runner: Client, location: Location) -> None:
    shutil.rmtree(location.path)
    address = reverse("location-refresh", args=[location.uid])
    answer = runner.post(address, headers={"Accept-Language": "de"}, follow=True)
    assert "Der Ort ist nicht lesbar: Hier ist nichts." in answer.content.decode()
    assert "There is nothing at this path." in shown(runner, location, "en")


def test_the_terminal_prints_translated_errors(location: Location, terminal: Terminal) -> None:
    with override("de"):
        problems = terminal.document("list", location.path)["problems"]
        with pytest.raises(CommandError, match="Hier ist nichts"):
            call_command("import_checkpoints", f"{location.path}/nowhere")
    assert problems[1] == {"path": "large.json", "reason": "Mit 1,101 Bytes ist sie größer als 1,000."}


def test_a_reason_stored_as_text_is_shown_unchanged(runner: Client, location: Location) -> None:
    Problem.objects.create(
        location=location, source_key="old.json", reason=plain_text("It is 100% old."), kind="broken"
    )
    Location.objects.update(read_error=plain_text("Gone by 50%."))
    page = shown(runner, location, "de")
    assert "It is 100% old." in page and "Gone by 50%." in page


def test_another_language_is_not_reported_as_a_change(location: Location) -> None:
    with override("de"):
        assert import_location(location).is_news is False
    (Path(location.path) / "half.json").write_text('{"entities"]')
    assert import_location(location).is_news is True
