"""A fork from the stored copy of a pruned checkpoint: redacted values are accepted or typed again."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.forking import CREW, checked, create_location, stored
from viewer.host.locations.importing import import_location
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_button_is_enabled_by_consent_or_a_value(
    browser: Browser, live_server: LiveServer, client: Client, tmp_path: Path
) -> None:
    checkpoint = stored(create_location((tmp_path / "newsroom").resolve()), CREW)
    Path(checkpoint.source).unlink()
    import_location(checkpoint.location)
    checkpoint.refresh_from_db()
    checked(checkpoint)
    client.force_login(teammate("ada", "run"))
    context = browser.new_context()
    for name, morsel in client.cookies.items():
        context.add_cookies([{"name": name, "value": morsel.value, "url": live_server.url}])
    page = context.new_page()
    page.goto(live_server.url + reverse("fork", args=[checkpoint.pk]))
    button, agreement = page.locator("#start-button"), page.locator("#accept-hidden")
    expect(page.locator("#plan")).to_contain_text("the input api_key")
    expect(button).to_be_disabled()
    agreement.check()
    expect(button).to_be_enabled()
    agreement.uncheck()
    expect(button).to_be_disabled()
    page.get_by_label("api_key", exact=True).fill("typed anew")
    expect(agreement).to_have_count(0)
    expect(button).to_be_enabled()
    context.close()
