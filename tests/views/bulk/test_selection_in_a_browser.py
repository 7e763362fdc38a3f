"""Runs are selected in a list, also all at once, and their plan opens."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.browsing import Open, opening
from tests.views.forking import CREW, FLOW, stored
from viewer.models import Job, Location

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


def test_selected_runs_are_forked_with_an_edit(open_page: Open, location: Location) -> None:
    stored(location, CREW)
    stored(location, {**CREW, "checkpoint_kickoff_event_id": "other"})
    stored(location, FLOW)
    page = open_page(reverse("home"))
    fork = page.get_by_role("button", name="Fork selected…")
    expect(fork).to_be_disabled()
    page.get_by_label("Select all on this page").check()
    expect(page.locator("#selected-count")).to_have_text("Selected: 3")
    page.get_by_role("row", name="Desk").get_by_role("checkbox", name="Select Desk").uncheck()
    # A refresh of the list keeps what is selected.
    page.evaluate("document.body.dispatchEvent(new Event('location-changed'))")
    page.wait_for_load_state("networkidle")
    expect(page.locator("#selected-count")).to_have_text("Selected: 2")
    fork.click()
    page.get_by_label("Type").select_option("An input or an entry of the state")
    page.get_by_label("Name, or the agent's role").fill("topic")
    page.get_by_label("New value").fill("tea")
    expect(page.locator(".bulk-group").first).to_contain_text("2 runs")
    expect(page.locator(".bulk-runs").first).to_contain_text("topic-tea-2")
    page.get_by_role("button", name="Start 2 forks").click()
    expect(page.get_by_role("heading", name="Several runs topic: tea")).to_be_visible()
    assert [job.branch for job in Job.objects.order_by("created_at")] == ["topic-tea", "topic-tea-2"]
