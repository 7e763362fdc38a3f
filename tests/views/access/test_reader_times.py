"""The time zone and the density that a user has chosen."""

import json
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from tests.views.browsing import opening
from viewer.formats import FORMATS
from viewer.models import Location, ReaderSettings, Run
from viewer.records.accounts import teammate

SCRIPT = Path(__file__).resolve().parents[3] / "static/js/times.js"


def test_both_are_stored_and_shown(reader: Client) -> None:
    reader.post(reverse("settings-save"), {"time_zone": "local", "density": "compact"})
    page = reader.get(reverse("settings")).content.decode()
    assert 'data-density="compact" data-times="local"' in page and "js/times.js" in page
    reader.post(reverse("settings-save"), {"time_zone": "Mars/North", "density": "0"})
    page = reader.get(reverse("settings")).content.decode()
    assert 'data-density="comfortable" data-times="server"' in page and "js/times.js" not in page


def test_every_time_of_a_page_can_be_shown_in_another_zone(reader: Client, crew_location: Location) -> None:
    run = crew_location.runs.get()
    for address in ("/", crew_location.get_absolute_url(), run.get_absolute_url(), reverse("jobs")):
        page = reader.get(address).content.decode()
        # The bars of home name days, which are those of the server in every zone.
        zoned = r"<time.*?</time>|<select.*?</select>|<title>.*?</title>|\w+=\"[^\"]*\""
        outside = re.sub(zoned, "", page, flags=re.S)
        assert not re.search(r"\d\d:\d\d|\d\d? Nov 2026", outside), address


def test_the_script_knows_every_format() -> None:
    listed = re.search(r"const formats = {(.*?)};", SCRIPT.read_text(), re.S)
    assert listed and re.findall(r"^ +(\w+): ", listed[1], re.M) == [*FORMATS]


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_times_are_those_of_the_chosen_zone(browser: Browser, live_server: LiveServer, crew_run: Run) -> None:
    row = crew_run.checkpoints.order_by("-row").first()
    assert row and row.created_at
    user = teammate("runner", "run")
    with opening(browser, live_server.url) as open_page:
        page = open_page(f"{crew_run.get_absolute_url()}?tab=overview", timezone_id="Asia/Seoul")
        clock, full = page.locator(".row time").first, page.locator(".detail dd time").first
        for zone, hours, label in (("server", 0, "UTC"), ("local", 9, "GMT+9"), ("utc", 0, "UTC")):
            ReaderSettings.objects.update_or_create(user=user, defaults={"time_zone": zone})
            page.reload()
            hour = (row.created_at.hour + hours) % 24
            assert clock.inner_text() == f"{hour:02}:{row.created_at:%M:%S}"
            assert full.inner_text().endswith(f"{hour:02}:{row.created_at:%M:%S} {label}")
        ReaderSettings.objects.filter(user=user).update(clock=ReaderSettings.Clock.HOURS_12)
        page.reload()
        assert clock.inner_text() == f"{row.created_at:%I:%M:%S %p}".lstrip("0").lower()
        # A part that is swapped in later.
        with page.expect_response(lambda answer: "/rows/" in answer.url):
            page.evaluate("document.body.dispatchEvent(new CustomEvent('location-changed'))")
        page.wait_for_function("() => document.querySelector('.row time[data-shown]')")
        shown = json.loads(
            page.evaluate("JSON.stringify([...document.querySelectorAll('time')].map(t => t.title))")
        )
        assert any(title.endswith("UTC") for title in shown)
