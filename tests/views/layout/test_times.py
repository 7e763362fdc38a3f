"""Times are shown with their zone, which is that of the server's settings."""

from django.test import Client
from pytest_django import Settings

from viewer.models import Location


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
