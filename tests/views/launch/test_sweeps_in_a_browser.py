"""The form of variations in a real browser: the branches follow typing and start once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.forking import CREW, checked, create_location, stored
from viewer.models import Job, Sweep
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def vary_page(browser: Browser, live_server: LiveServer, client: Client, tmp_path: Path) -> Iterator[Page]:
    """Open the form of a crew's checkpoint. Fails on errors in scripts or violations of the policy."""
    checkpoint = stored(create_location((tmp_path / "newsroom").resolve()), CREW)
    checked(checkpoint)
    client.force_login(teammate("ada", "run"))
    context = browser.new_context()
    cookies = client.cookies.items()
    context.add_cookies([{"name": n, "value": m.value, "url": live_server.url} for n, m in cookies])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Policy" in message.text else None)
    page.goto(live_server.url + reverse("new-sweep", args=[checkpoint.pk]))
    yield page
    context.close()
    assert errors == []


def test_the_branches_follow_typing_and_a_double_click_starts_them_once(vary_page: Page) -> None:
    expect(vary_page.locator("#start-button")).to_be_disabled()
    vary_page.fill("#vary-input-0", "tea\nmilk")
    expect(vary_page.locator(".planned-branch")).to_have_count(2)
    expect(vary_page.locator(".step-stale")).to_have_count(4)
    vary_page.check("#again-stale")
    expect(vary_page.locator(".planned-steps .is-again")).to_have_count(4)
    vary_page.fill("#branch", "tone")
    expect(vary_page.locator(".planned-name").first).to_have_text("tone/tea")
    assert not Job.objects.exists()
    vary_page.dblclick("#start-button")
    vary_page.wait_for_url("**/sweeps/*/")
    assert Sweep.objects.count() == 1 and Job.objects.count() == 2
    # The end appears without a reload.
    for job in Job.objects.all():
        job.end(Job.Status.SUCCEEDED, result=f"About {job.branch}")
    expect(vary_page.locator(".status-succeeded")).to_have_count(2)
    expect(vary_page.locator(".variation-result").last).to_contain_text("About tone/milk")


def test_a_text_can_be_added_for_an_output(vary_page: Page) -> None:
    vary_page.locator(".output-fold summary").first.click()
    texts = vary_page.locator(".output-fold").first.locator("textarea")
    expect(texts).to_have_count(2)
    texts.nth(0).fill("One")
    texts.nth(1).fill("Two")
    vary_page.get_by_role("button", name="Add variant", exact=True).first.click()
    expect(texts).to_have_count(3)
    expect(texts.nth(1)).to_have_value("Two")
    expect(vary_page.locator(".planned-branch")).to_have_count(2)
