"""The pages of threads in a real browser: nothing for axe to find, nothing wider than the screen."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from pytest_django.live_server_helper import LiveServer

from tests.imported import imported_location
from tests.langgraph.conftest import copied, opened
from tests.langgraph.databases import long_thread
from tests.views.axe import findings
from tests.views.browsing import Open, opening, resize
from viewer.engines.langgraph.threads.listing import MIN_CHECKPOINTS
from viewer.models import Location

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TABS = ("state", "messages", "writes", "next", "graph", "subgraphs", "metadata", "raw")

# The requests of a page for rows.
ROWS = re.compile("/rows/")


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


@pytest.fixture
def addresses(transactional_db: None, tmp_path: Path) -> dict[str, str]:
    """The addresses of a location, of its threads, and of every tab of one."""
    location = imported_location(copied("lg12", tmp_path))
    threads = {
        thread: opened(location, thread).get_absolute_url()
        for thread in ("fan-failed", "fan-forked", "appr-done")
    }
    tabs = {tab: f"{threads['appr-done']}?tab={tab}" for tab in TABS}
    called = opened(location, "map-sub-waiting").called_runs.get().get_absolute_url()
    shown = Location.objects.get().get_absolute_url()
    return {"location": shown, "none": f"{shown}?q=nothing", "called": called, **threads, **tabs}


def test_the_rest_of_a_long_thread_is_listed_while_its_page_is_open(open_page: Open, tmp_path: Path) -> None:
    count = MIN_CHECKPOINTS + 50
    location = imported_location(long_thread(tmp_path / "threads.db", count, {count: 10}))
    page = open_page("/")
    held: list[Route] = []
    page.route(ROWS, lambda route: held.append(route))
    with page.expect_request(ROWS):
        page.goto(location.runs.get().get_absolute_url())
    assert location.runs.get().is_partly_listed
    expect(page.locator("#run-summary")).to_contain_text("listed so far")
    expect(page.locator(".row-turn").first).to_have_text("Turn")
    expect(page.locator("#run-branches li")).to_have_count(2)
    held[0].continue_()
    expect(page.locator("#run-summary")).not_to_contain_text("listed so far")
    expect(page.locator(".row-turn").first).to_have_text(re.compile("Turn [1-9]"))
    assert location.runs.get().listed_count == count + 1


def test_axe_finds_nothing_and_no_page_is_wider_than_the_screen(
    open_page: Open, addresses: dict[str, str]
) -> None:
    page = open_page("/")
    found, wide = [], []
    for name, address in addresses.items():
        page.goto(address)
        if wrong := findings(page):
            found.append(f"{name}:\n{wrong}")
        for width in (390, 768, 1440):
            resize(page, width)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append((name, width))
        resize(page, 1280, 720)
    assert not found, "\n".join(found)
    assert wide == []


FIRST_SCREENS = ({"width": 390, "height": 844}, {"width": 720, "height": 450})


@pytest.mark.parametrize("screen", FIRST_SCREENS)
def test_the_first_screen_of_a_waiting_thread_shows_its_question(
    open_page: Open, transactional_db: None, tmp_path: Path, screen: dict[str, int]
) -> None:
    location = imported_location(copied("lg12", tmp_path))
    waiting = opened(location, "appr-waiting").checkpoints.latest("row")
    page = open_page(waiting.get_absolute_url(), viewport=screen)
    question = page.locator(".asked .question-prompt").first.bounding_box()
    assert question and question["y"] + 3 * 20 <= screen["height"], (
        "At least three lines are on the first screen."
    )


def test_before_stands_above_after_on_a_phone(
    open_page: Open, transactional_db: None, tmp_path: Path
) -> None:
    location = imported_location(copied("lg12", tmp_path))
    done = opened(location, "appr-done").checkpoints.latest("row")
    page = open_page(done.get_absolute_url(), viewport=FIRST_SCREENS[0])
    script = """rows => rows.map(row => [...row.querySelectorAll('td[data-label]')]
      .filter(cell => cell.checkVisibility()).map(cell => cell.getBoundingClientRect().toJSON()))"""
    pairs = page.locator(".channels tr.channel").evaluate_all(script)
    both = [pair for pair in pairs if len(pair) == 2]
    assert both
    for before, after in both:
        assert before["bottom"] <= after["top"] + 1 and abs(before["left"] - after["left"]) < 1
