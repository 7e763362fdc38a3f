"""Two people with the same run open, in real browsers."""

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from tests.live.conftest import page, server
from tests.live.server import Server
from viewer.models import Run
from viewer.records.accounts import teammate

__all__ = ["page", "server"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_each_sees_the_other_until_they_leave(
    page: Page, server: Server, browser: Browser, crew_run: Run
) -> None:
    client = Client()
    client.force_login(teammate("ada.lovelace", "view"))
    context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    name = f"forkline_session_{server.port}"
    context.add_cookies([{"name": name, "value": session, "domain": "127.0.0.1", "path": "/"}])
    other = context.new_page()
    page.goto(crew_run.get_absolute_url())
    expect(page.locator("#present")).to_be_hidden()
    top = page.locator(".row").first.bounding_box()
    other.goto(crew_run.get_absolute_url())
    expect(page.locator("#present")).to_have_text("Also here: ada.lovelace")
    expect(other.locator("#present")).to_have_text("Also here: runner")
    assert page.locator(".row").first.bounding_box() == top
    # What the page fetches meanwhile does not hide them, and they move no row.
    page.locator(".row a").last.click()
    page.get_by_role("link", name="Failed").click()
    expect(page.locator("#present")).to_have_text("Also here: ada.lovelace")
    other.goto("/")
    expect(page.locator("#present")).to_be_hidden()
    context.close()
