"""Opening a form that can start a run requests a prewarmed process."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.views.forking import CREW, create_location, stored
from viewer.host.jobs import prewarm
from viewer.host.jobs.prewarm import take_requests
from viewer.models import Location, Project


@pytest.fixture
def location(db: None, tmp_path: Path, settings: Settings) -> Location:
    settings.PREWARM = True
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return create_location(tmp_path / "news")


def forms(location: Location) -> list[str]:
    checkpoint = stored(location, CREW)
    return [
        *(reverse(name, args=[checkpoint.pk]) for name in ("fork", "resume", "new-sweep")),
        reverse("new-run", args=[location.uid]),
    ]


def test_opening_a_form_requests_a_prewarmed_process(location: Location, admin_client: Client) -> None:
    for address in forms(location):
        assert take_requests() == []
        # A link from another site starts no process.
        for site in ("cross-site", "none"):
            assert admin_client.get(address, headers={"Sec-Fetch-Site": site}).status_code == 200
        assert take_requests() == []
        assert admin_client.get(address, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert take_requests() == [location.project], address


def test_nothing_is_requested_for_an_unconfirmed_project(location: Location, admin_client: Client) -> None:
    Project.objects.update(confirmed_at=None)
    for address in forms(location):
        admin_client.get(address, headers={"Sec-Fetch-Site": "same-origin"})
    location.refresh_from_db()
    prewarm.request_prewarm(location.project)
    assert take_requests() == []


def test_a_later_request_does_not_postpone_an_earlier_one(location: Location) -> None:
    prewarm.request_prewarm(location.project)
    prewarm.request_prewarm(location.project, seconds=60)
    assert take_requests() == [location.project]
    prewarm.request_prewarm(location.project, seconds=60)
    assert take_requests() == []


def test_an_old_request_expires(location: Location) -> None:
    prewarm.request_prewarm(location.project, seconds=-3600)
    assert take_requests() == []
    assert not list(prewarm.folder().glob("*.request"))
