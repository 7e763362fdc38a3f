"""An open page in a real browser after its reader lost access, or after its job was removed."""

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from tests.live.server import Server
from tests.waiting import wait_until
from viewer.models import Job
from viewer.records.accounts import teammate

pytestmark = pytest.mark.browser


def is_quiet(page: Page, requests: list[str]) -> bool:
    """Whether a page that polled every second no longer does. Its first sockets may open late."""
    requests.clear()
    page.wait_for_timeout(1500)
    return not requests


def test_an_open_page_shows_a_logout_and_stops_polling(page: Page, job: Job) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda opened: requests.append(opened.url))
    for address in (job.get_absolute_url(), job.location.get_absolute_url()):
        page.goto(address)
        expect(page.locator("#logged-out")).to_be_hidden()
        page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
        session = Session.objects.get()
        Session.objects.all().delete()
        expect(page.get_by_text("You are logged out. This page no longer updates.")).to_be_visible()
        wait_until(lambda: is_quiet(page, requests))
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
        # The shown content stays readable.
        expect(page.locator(f"#job-{job.pk}-sentence")).to_be_visible()
        session.save(force_insert=True)
    page.locator("#logged-out a").click()
    expect(page.locator("#logged-out")).to_be_hidden()
    expect(page.locator(".job-bar")).to_be_visible()


def test_a_logout_while_the_server_was_down_is_shown(page: Page, job: Job, server: Server) -> None:
    page.goto(job.get_absolute_url())
    page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    server.end()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    Session.objects.all().delete()
    server.start()
    expect(page.get_by_text("Logged out.")).to_be_visible()
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()


def test_buttons_appear_and_disappear_with_the_right(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    cancel = page.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible()
    teammate("runner", "view")
    expect(cancel).to_have_count(0)
    expect(page.get_by_text("Read-only")).to_be_visible()
    teammate("runner", "run")
    expect(cancel).to_be_visible()


def test_the_page_of_a_removed_job_shows_that(page: Page, job: Job) -> None:
    other = page.context.new_page()
    other.goto(job.get_absolute_url())
    page.goto(job.location.get_absolute_url())
    for one in (page, other):
        one.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    job.location.delete()
    for one in (page, other):
        expect(one.get_by_text("This was removed.")).to_be_visible()
