"""The palette opens with Ctrl+K and is used with the keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.axe import findings
from tests.views.browsing import Open, opening
from viewer.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


def test_the_keyboard_leads_to_a_checkpoint_and_to_the_pages_own_actions(
    open_page: Open, crew_run: Run
) -> None:
    checkpoint = crew_run.checkpoints.earliest("row")
    page = open_page("/jobs/")
    page.keyboard.press("Control+k")
    palette = page.locator("#palette")
    expect(palette).to_be_visible()
    expect(palette.get_by_role("option", name="Inbox", exact=True).last).to_be_visible()
    assert findings(page) == ""
    page.keyboard.type(checkpoint.checkpoint_id)
    option = palette.get_by_role("group", name="Checkpoints").get_by_role("option")
    expect(option).to_have_count(1)
    expect(option).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/**")
    # An action of this page: a tab of the checkpoint.
    page.keyboard.press("Control+k")
    page.keyboard.type("events")
    group = palette.get_by_role("group", name="On this page")
    expect(group.get_by_role("option", name="Events")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator(".tabs a[aria-current]")).to_have_text("Events")
    expect(palette).to_be_hidden()


def test_arrows_select_and_escape_returns_the_focus(open_page: Open, crew_run: Run) -> None:
    page = open_page("/search/")
    words = page.locator("#search-words")
    words.focus()
    page.keyboard.press("Control+k")
    field = page.locator("#palette-input")
    expect(page.locator("#palette-results [role=option]").first).to_be_visible()
    first = field.get_attribute("aria-activedescendant")
    page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") != first
    page.keyboard.press("ArrowUp")
    assert field.get_attribute("aria-activedescendant") == first
    page.keyboard.press("Escape")
    expect(words).to_be_focused()
