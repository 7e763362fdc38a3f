"""Times are shown with their zone, which is that of the server's settings."""

from pathlib import Path

from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.messages.catalogue import write_catalogue
from viewer.models import Location, Run


def test_a_time_is_shown_with_its_zone(reader: Client, crew_location: Location, settings: Settings) -> None:
    settings.TIME_ZONE = "America/New_York"
    run = crew_location.runs.get()
    for address in (
        crew_location.get_absolute_url(),
        run.get_absolute_url(),
        run.checkpoints.earliest("row").get_absolute_url(),
    ):
        page = reader.get(address, follow=True).content.decode()
        assert "20 Nov 2026, 18:28:26 EST" in page, address
        assert "UTC" not in page, address


def test_lists_of_runs_have_the_same_zone_as_pages(reader: Client, crew_run: Run, settings: Settings) -> None:
    settings.TIME_ZONE = "America/New_York"
    commands = reader.get(reverse("palette"), {"q": crew_run.name}).content.decode()
    candidates = reader.get(reverse("compare"), {"find": crew_run.name}).content.decode()
    assert "20 Nov 2026, 18:29 EST" in commands and "20 Nov 2026, 18:28:26 EST" in candidates


def test_days_are_in_the_order_of_the_language(
    reader: Client, crew_location: Location, settings: Settings, tmp_path: Path
) -> None:
    settings.LOCALE_PATHS = [write_catalogue(tmp_path / "locale", "ko", {"j M Y": "Y년 n월 j일"})]
    settings.LANGUAGES = [("en", "English"), ("ko", "한국어")]
    run = crew_location.runs.get()
    for address in (run.get_absolute_url(), run.checkpoints.earliest("row").get_absolute_url()):
        page = reader.get(address, headers={"Accept-Language": "ko"}, follow=True).content.decode()
        assert "2026년 11월 20일 23:28:26 UTC" in page and "20 11월" not in page, address
