"""The form of a new run in a real browser shows the effect of each choice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.forking import checked_new_run, create_location
from viewer.host.jobs.files import storage_of
from viewer.models import Job, PreflightCheck, Project
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def check(tmp_path: Path) -> Iterator[PreflightCheck]:
    """Create an unfinished preflight check of the project's crew, which no other process runs."""
    project = create_location((tmp_path / "newsroom").resolve()).project
    assert project
    check = checked_new_run(project, "crew:build")
    PreflightCheck.objects.update(status=PreflightCheck.Status.CHECKING)
    check.folder.mkdir(parents=True)
    with storage_of(check).following():
        yield check


@pytest.fixture
def form(browser: Browser, live_server: LiveServer, client: Client, check: PreflightCheck) -> Iterator[Page]:
    """Open that crew's form of a new run. Fails on errors in scripts or violations of the policy."""
    client.force_login(teammate("ada", "run"))
    context = browser.new_context()
    context.add_cookies(
        [
            {"name": name, "value": morsel.value, "url": live_server.url}
            for name, morsel in client.cookies.items()
        ]
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Policy" in message.text else None)
    location = Project.objects.get().locations.get()
    page.goto(f"{live_server.url}{reverse('new-run', args=[location.uid])}?entry_point=crew:build")
    yield page
    context.close()
    assert errors == []


def test_the_findings_and_the_effect_of_choices_are_shown_before_the_start(
    form: Page, check: PreflightCheck
) -> None:
    expect(form.locator("#preflight")).to_contain_text("You need not wait")
    expect(form.locator("#start-button")).to_be_enabled()
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", "blocks": ["It fails."]})
    expect(form.locator("#start")).to_contain_text("It fails.")
    expect(form.locator("#start-button")).to_be_disabled()
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", "imports": ["crew"]})
    form.locator("#checkpoints > summary").click()
    form.get_by_text("All events").click()
    form.check('input[value="*"]')
    expect(form.locator("#checkpoints-summary")).to_contain_text("This writes many checkpoints")
    expect(form.locator("#preflight")).to_contain_text("Ready to start.")
    form.fill("#max-checkpoints", "5")
    expect(form.locator("#checkpoints-summary")).not_to_contain_text("This writes many checkpoints")
    form.locator(".models > summary").click()
    form.fill("#model-all", "gpt 4")
    expect(form.locator("#model-all-error")).to_contain_text("one word")
    form.fill("#model-all", "gpt-4.1")
    expect(form.locator("#models-summary")).to_contain_text("all: gpt-4.1")
    assert not Job.objects.exists()
    form.click("#start-button")
    form.wait_for_url("**/jobs/**")
    assert Job.objects.get().request["options"] == {
        "models": {"*": "gpt-4.1"},
        "checkpoints": {"events": ["*"], "max_checkpoints": 5},
    }
