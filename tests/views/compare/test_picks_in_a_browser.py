"""Picking what to compare, and the comparison, in a real browser."""

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


def test_rows_are_picked_with_a_click_or_a_key_and_compared(
    open_page: Open, transactional_db: None, crew_run: Run
) -> None:
    page = open_page(crew_run.get_absolute_url())
    address = page.url
    page.locator(".row a").nth(0).click(modifiers=["Control"])
    page.locator(".row a").nth(2).focus()
    page.keyboard.press("c")
    picks = page.get_by_role("complementary", name="Picked for a comparison")
    expect(picks).to_contain_text("2 picked to compare")
    expect(page.locator("#announcements")).to_have_text("2 picked to compare")
    assert page.url == address
    assert not findings(page)
    page.keyboard.press("c")
    expect(picks).to_contain_text("1 picked to compare")
    page.keyboard.press("c")
    picks.get_by_role("link", name="Compare").click()
    expect(page.locator(".compare-table thead th")).to_have_count(2)
    expect(picks).to_be_hidden()
    # Until htmx has added its listeners, a link loads a whole page.
    page.wait_for_load_state()
    expect(page.locator(".htmx-added, .htmx-settling")).to_have_count(0)
    row = page.locator(".compare-table tbody th a").last
    row.focus()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-current", "true")
    expect(row).to_be_focused()
    assert "row=" in page.url
    assert not findings(page)
