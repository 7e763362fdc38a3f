"""Typing in the branch picker finds branches that the page does not list."""

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import generated_run
from tests.views.browsing import opening

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_branch_beyond_the_listed_ones_is_found(browser: Browser, live_server: LiveServer) -> None:
    run = generated_run(120)
    rows = list(run.checkpoints.order_by("row"))
    for number, row in enumerate(rows):
        row.branch = f"idea-{number:03}"
    run.checkpoints.bulk_update(rows, ["branch"])
    with opening(browser, live_server.url) as open_in_browser:
        page = open_in_browser(run.get_absolute_url())
        page.keyboard.press("b")
        search, found = page.locator("#branch-search"), page.locator("#run-branches [data-name]:visible")
        expect(search).to_be_focused()
        expect(page.locator('[data-name="idea-007"]')).to_have_count(0)
        search.fill("IDEA-007")
        expect(found).to_have_count(1)
        expect(found).to_have_attribute("data-name", "idea-007")
        expect(search).to_be_visible()
        expect(page.locator(".branch-none")).to_be_hidden()
        search.press("Enter")
        page.wait_for_url("**branch=idea-007**")
        page.keyboard.press("b")
        page.locator("#branch-search").fill("nothing like it")
        expect(page.locator(".branch-none")).to_be_visible()
