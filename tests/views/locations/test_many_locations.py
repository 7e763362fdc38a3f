"""With many locations, pages show some of them and find the others by their path."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.axe import findings
from tests.views.browsing import opening
from viewer.messages.message import UserMessage
from viewer.models import Location, Problem, Run
from viewer.presentation.listing import MAX_OFFERED_LOCATIONS
from viewer.records.search_filters import filters_from

COUNT = 2 * MAX_OFFERED_LOCATIONS + 5


def make_locations(count: int = COUNT) -> list[Location]:
    """Return locations of which each has a newer run than the one before."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    made = [Location.objects.create(path=f"/data/team {number:03}/store") for number in range(count)]
    Run.objects.bulk_create(
        Run(location=one, key="run", uid=one.uid, last_at=at + timedelta(days=number))
        for number, one in enumerate(made)
    )
    return made


def text_of(client: Client, address: str) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def rows_of(page: str) -> list[str]:
    return re.findall(r"location-path\">/data/team (\d+)", page)


@pytest.mark.parametrize("address", ["/", "/locations/", "/search/", "/palette/", "/palette/?q=team"])
def test_more_locations_need_no_more_queries(runner: Client, db: None, address: str) -> None:
    make_locations()
    counts = []
    for times in range(2):
        runner.get(address)
        with CaptureQueriesContext(connection) as queries:
            runner.get(address)
        counts.append(len(queries))
        for number in range(10):
            Location.objects.create(path=f"/more/{times}/{number}")
    assert counts[0] == counts[1]


def test_the_list_has_pages(runner: Client, db: None) -> None:
    make_locations()
    first, last = text_of(runner, "/locations/"), text_of(runner, "/locations/?page=3")
    assert rows_of(first) == [f"{number:03}" for number in range(50)] and "of 105" in first
    assert rows_of(last) == ["100", "101", "102", "103", "104"]
    assert 'data-label="run">1</td>' in last


def test_a_location_is_found_by_a_part_of_its_path(runner: Client, db: None) -> None:
    make_locations()
    assert rows_of(text_of(runner, "/locations/?q=TEAM+07")) == [f"07{number}" for number in range(10)]
    nothing = text_of(runner, "/locations/?q=nowhere")
    assert "No location matches." in nothing and 'id="add"' in nothing


def test_the_list_is_narrowed_to_locations_with_problems(runner: Client, db: None) -> None:
    made = make_locations()
    Problem.objects.create(location=made[70], source_key="a.json", kind="broken", reason=UserMessage("x"))
    Location.objects.filter(pk=made[80].pk).update(read_error=UserMessage("x"))
    assert rows_of(text_of(runner, "/locations/?only=problems")) == ["070"]
    assert rows_of(text_of(runner, "/locations/?only=unreadable")) == ["080"]


def test_home_shows_the_locations_with_the_newest_runs(runner: Client, db: None) -> None:
    made = make_locations()
    Location.objects.filter(pk=made[0].pk).update(read_error=UserMessage("x"))
    page = text_of(runner, "/")
    section = page[page.index('class="home-locations"') :]
    shown = re.findall(r'title="/data/team (\d+)/store"', section)
    assert shown == [f"{number:03}" for number in range(COUNT - MAX_OFFERED_LOCATIONS, COUNT)]
    assert "Show all locations" in section and "105" in section
    assert "1 cannot be read" in section and "/locations/?only=unreadable" in section


def test_few_locations_are_shown_without_a_search(runner: Client, db: None) -> None:
    made = make_locations(3)
    for address in ("/", "/locations/"):
        page = text_of(runner, address)
        assert all(one.get_absolute_url() in page for one in made)
        assert "Show all locations" not in page and "Filter locations" not in page
    form = text_of(runner, "/search/")
    assert all(f'<option value="{one.uid}">{one.path}</option>' in form for one in made)


def test_a_search_takes_a_part_of_a_path(runner: Client, db: None) -> None:
    made = make_locations()
    page = text_of(runner, f"/search/?location={made[7].uid}")
    assert '<select name="location"' not in page
    assert '<input type="text" name="location" value="/data/team 007/store"' in page
    offered = text_of(runner, "/search/locations/?location=team+00")
    assert re.findall(r'value="/data/team (\d+)/store"', offered) == [f"00{number}" for number in range(10)]
    assert text_of(runner, "/search/locations/").count("<option") == MAX_OFFERED_LOCATIONS


@pytest.mark.parametrize("text", ["\0", "%", "_" * 5000, "'", "<script>alert(1)</script>"])
def test_odd_paths_are_no_errors(runner: Client, db: None, text: str) -> None:
    make_locations(MAX_OFFERED_LOCATIONS + 1)
    for address in ("/locations/", "/search/locations/", "/search/", "/palette/"):
        answer = runner.get(address, {"q": text, "location": text}, follow=True)
        assert answer.status_code == 200 and b"<script>alert" not in answer.content


@pytest.mark.parametrize("typed", ["%00", "team%00 07", "%ED%A0%80"])
def test_what_no_path_holds_finds_no_location(runner: Client, db: None, typed: str) -> None:
    make_locations(MAX_OFFERED_LOCATIONS + 1)
    assert "No location matches." in text_of(runner, f"/locations/?q={typed}")
    assert "<option" not in text_of(runner, f"/search/locations/?location={typed}")


@pytest.mark.parametrize("typed", ["\0", "team\0 07", "\ud800"])
def test_a_search_below_what_no_path_holds_finds_no_location(db: None, typed: str) -> None:
    make_locations(8)
    Location.objects.create(path="/data/what?")
    assert not Location.objects.matching(filters_from({"location": typed}).location).exists()


def test_the_palette_finds_a_location_without_new_runs(runner: Client, db: None) -> None:
    made = make_locations()
    Run.objects.all().delete()
    assert made[3].get_absolute_url() in text_of(runner, "/palette/?q=team+003")
    assert f"{made[3].get_absolute_url()}prune/" in text_of(runner, "/palette/?q=prune+003")


def test_the_palette_finds_letters_whose_other_case_is_ascii(runner: Client, db: None) -> None:
    made = Location.objects.create(path="/data/straße")
    assert made.get_absolute_url() in text_of(runner, "/palette/?q=straße")


def test_a_new_run_offers_the_chosen_location_and_those_with_new_runs(
    runner: Client, location: Location
) -> None:
    for one in make_locations():
        Location.objects.filter(pk=one.pk).update(project=location.project)
    page = text_of(runner, f"{reverse('new-run', args=[location.uid])}?entry_point=crew:build")
    options = re.findall(r"<option value=\"([^\"]+)\"( selected)?>", page[page.index('id="location"') :])
    assert options[0] == (str(location.uid), " selected") and len(options) == MAX_OFFERED_LOCATIONS + 1


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_with_many_locations_are_accessible(
    browser: Browser, live_server: LiveServer, width: int
) -> None:
    make_locations()
    with opening(browser, live_server.url) as open_page:
        page = open_page("/")
        page.set_viewport_size({"width": width, "height": 900})
        for address in ("/", "/locations/", "/locations/?q=nowhere", "/search/?location=team+001"):
            page.goto(address)
            assert findings(page) == ""
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator(".search-filters summary").click()
        page.get_by_label("Location").fill("team 017")
        expect(page.locator("#location-values option")).to_have_count(1)
        assert findings(page) == ""
