"""The script injection payloads are complete, and a sample of them stays text in a real browser."""

import asyncio
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.async_api import async_playwright
from pytest_django.live_server_helper import LiveServer

from quality.fuzz.script_injection.browser import Seen, visit, watched_context
from quality.fuzz.script_injection.groups import Group, made_groups
from quality.fuzz.script_injection.payloads import filled, payload_forms
from scripts.chromium import launch_options

# A few are enough to show that an attack would be seen. ``make fuzz`` shows all of them.
EVERY = 120
# Nothing listens there.
NOWHERE = "127.0.0.1:9"


def test_there_are_500_distinct_payloads() -> None:
    forms = payload_forms()
    assert len(forms) == len(set(forms)) >= 500
    assert not [form for form in forms if "§" in filled(form, 1, NOWHERE)]


@pytest.mark.browser
@pytest.mark.parametrize("with_policy", [True, False], ids=["with a policy", "without one"])
def test_no_payload_runs_on_any_page(
    live_server: LiveServer,
    transactional_db: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_policy: bool,
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    payloads = {n: filled(form, n, NOWHERE) for n, form in enumerate(payload_forms()[::EVERY], 1)}
    (group,) = made_groups(tmp_path, payloads)
    client = Client()
    client.force_login(User.objects.create_superuser("owner"))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    seen = asyncio.run(visited(live_server.url, session, group, with_policy))
    assert seen.ran == seen.requests == seen.reports == seen.markup == seen.failed == []
    assert seen.pages == len(group.addresses)
    called = ("new answer", "requested tool", "replayed model")
    for name in ("branch", "input", "output", "event error", "state", "file name", "job step agent", *called):
        assert seen.shown[name] == set(payloads), name


async def visited(site: str, session: str, group: Group, with_policy: bool) -> Seen:
    seen = Seen()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        context = await watched_context(browser, site, seen, with_policy=with_policy)
        await context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])
        page = await context.new_page()
        for address in group.addresses:
            await visit(page, address, seen)
        await browser.close()
    return seen


@pytest.mark.browser
def test_a_page_without_escaping_fails() -> None:
    async def scan() -> Seen:
        seen = Seen()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(**launch_options())
            context = await watched_context(browser, "http://127.0.0.1", seen, with_policy=False)
            page = await context.new_page()
            form = "<img src=§url§ onerror=mark(§n§)>"
            body = filled(form, 7, NOWHERE)
            await page.route("**/here", lambda route: route.fulfill(body=body, content_type="text/html"))
            await visit(page, "http://127.0.0.1/here", seen)
            await browser.close()
        return seen

    seen = asyncio.run(scan())
    assert seen.ran == ["mark 7"]
    assert seen.requests == [f"http://{NOWHERE}/7"]
    assert seen.markup
