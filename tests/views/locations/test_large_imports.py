"""The progress of a large import on the page of its location."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.imported import observe_once
from viewer.data_folder.locks import serving
from viewer.host.locations import importing
from viewer.host.locations.importing import import_added
from viewer.models import Location


def test_a_page_shows_the_progress_and_continues_a_cancelled_import(
    crew_location: Location, runner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = crew_location
    monkeypatch.setattr(importing, "NEWEST", 2)
    import_added(large)
    page = runner.get(large.get_absolute_url()).content.decode()
    assert "<progress" in page and "Cancel import" in page
    address = reverse("location-cancel-import", args=[large.uid])
    page = runner.post(address, follow=True).content.decode()
    assert "The import was cancelled." in page and "<progress" not in page
    runner.post(reverse("location-refresh", args=[large.uid]))
    assert Location.objects.get(pk=large.pk).import_state == Location.ImportState.REQUESTED
    observe_once()
    page = runner.get(large.get_absolute_url()).content.decode()
    assert "import-progress" not in page


def test_a_page_says_what_continues_an_import_without_a_worker(
    crew_location: Location, reader: Client
) -> None:
    notice = "No worker is running. <code>forkline worker</code> continues the import."
    crew_location.request_import()
    assert notice in reader.get(crew_location.get_absolute_url()).content.decode()
    with serving(slots=1):
        assert notice not in reader.get(crew_location.get_absolute_url()).content.decode()
    crew_location.cancel_import()
    assert notice not in reader.get(crew_location.get_absolute_url()).content.decode()
