"""axe finds no faults on any page, in any of its states, in either theme."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.access.test_urls import ALL, API, BY_LINK, LOGIN, PUBLIC, addresses_at
from tests.views.axe import faults_of, findings
from tests.views.browsing import Open, opening, resize
from tests.views.forking import checked, checked_new_run
from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.presentation.calls import recorded_calls_of
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
FAULTS = sorted(path.name for path in TEMPLATES.glob("[45]*.html"))


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


def test_every_page(open_page: Open, location: Location) -> None:
    addresses = addresses_at(location)
    checked(Checkpoint.objects.get())
    assert location.project
    checked_new_run(location.project, "crew:build")
    # Former addresses only redirect.
    present = {name for name in ALL if not name.startswith("moved-")}
    assert set(addresses) == present - LOGIN - PUBLIC - BY_LINK - API
    client = Client()
    client.force_login(teammate("ada", "run"))
    pages = different_pages(client, addresses)
    assert {"locations", "run", "fork", "new-run", "new-sweep", "job", "jobs", "inbox"} <= set(pages)
    assert faults_of(open_page("/"), pages) == ""


def different_pages(client: Client, addresses: dict[str, str]) -> dict[str, str]:
    """Return the addresses whose GET request shows a whole page, not a partial or a file.

    Of addresses with the same error, and of those that lead to the same page, return the first.
    """
    found, shown = {}, set()
    for name, address in addresses.items():
        answer = client.get(address, follow=True)
        is_html = answer.headers.get("Content-Type", "").startswith("text/html")
        is_download = "attachment" in answer.headers.get("Content-Disposition", "")
        at = answer.request["PATH_INFO"], answer.request["QUERY_STRING"]
        page = at if answer.status_code == 200 else answer.status_code
        if is_html and not is_download and b"<html" in answer.content and page not in shown:
            found[name] = address
            shown.add(page)
    return found


def test_empty_pages(open_page: Open, location: Location) -> None:
    names = ("locations", "jobs", "inbox")
    pages = {name: reverse(name) for name in names} | {"location": location.get_absolute_url()}
    assert faults_of(open_page("/"), pages) == ""
    Location.objects.all().delete()
    assert faults_of(open_page("/"), {"locations": "/"}) == ""


def test_model_calls(open_page: Open, crew_run: Run) -> None:
    last = crew_run.checkpoints.filter(branch="main").latest("row")
    page = open_page("/")
    address = reverse("checkpoint-call", args=[last.pk, recorded_calls_of(last)[0].name])
    for shown in (reverse("checkpoint-calls", args=[last.pk]), address):
        page.goto(shown)
        open_everything(page)
        check_at_widths(page)


def check_at_widths(page: Page, height: int = 900) -> None:
    """Check that a phone and a large screen show the page without faults and without scrolling sideways."""
    for width in (390, 1440):
        resize(page, width, height)
        assert findings(page) == ""
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_replays(open_page: Open, crew_run: Run) -> None:
    last = crew_run.checkpoints.filter(branch="main").latest("row")
    call = recorded_calls_of(last)[0].name
    job = Job.objects.create(
        kind=Job.Kind.REPLAY,
        location=last.location,
        run=last.run,
        checkpoint=last,
        status=Job.Status.SUCCEEDED,
        request={"replay": {"recorded": call, "models": ["gpt-4o"], "times": 1}},
    )
    answers = ({"text": "A new answer.", "tools": []}, {"text": "", "tools": [], "error": "RateLimitError"})
    for number, answer in enumerate(answers, 1):
        data = {"model": "gpt-4o", "attempt": number, "seconds": 0.5, **answer}
        JobEvent.objects.create(job=job, seq=number, kind="call_replayed", at=job.created_at, data=data)
    page = open_page("/")
    for shown in (reverse("replay", args=[last.pk, call]), job.get_absolute_url()):
        page.goto(shown)
        open_everything(page)
        check_at_widths(page, 4000)


@pytest.mark.parametrize("name", ["fork", "new-sweep", "resume"])
def test_a_refused_form(open_page: Open, checkpoint: Checkpoint, name: str) -> None:
    part = {"what": "guardrails", "name": "no_shouting", "task": 3, "agent": "", "fate": "lost"}
    checked(checkpoint, components=[part])
    page = open_page(reverse(name, args=[checkpoint.pk]))
    # The bar at the bottom covers what a person has yet to scroll to.
    page.set_viewport_size({"width": 1280, "height": 4000})
    open_everything(page)
    assert findings(page) == ""
    fields = {"max_checkpoints": "many", "limit_tokens": "few", "start_at": "2020-01-01T00:00"}
    fields |= {"input:year": "soon"} if name != "resume" else {}
    for field, text in fields.items():
        if page.locator(f"#fork [name='{field}']").count():
            page.locator(f"#fork [name='{field}']").first.fill(text)
    expect(page.locator("#refusal")).to_be_visible()
    assert findings(page) == ""
    with page.expect_navigation():
        page.evaluate("HTMLFormElement.prototype.submit.call(document.getElementById('fork'))")
    expect(page.locator("#errors")).to_be_visible()
    open_everything(page)
    assert findings(page) == ""


def open_everything(page: Page) -> None:
    """Open every collapsed section, outer ones first."""
    page.evaluate("document.querySelectorAll('details').forEach(part => (part.open = true))")


def test_a_project_that_cannot_be_confirmed(open_page: Open, location: Location) -> None:
    page = open_page(reverse("project", args=[location.uid]))
    page.fill("[name=folder]", "/nowhere")
    page.fill("[name=other_entry_points]", "no point")
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator(".notice-bad").first).to_be_visible()
    assert findings(page) == ""


def test_read_only_pages(browser: Browser, live_server: LiveServer, location: Location) -> None:
    addresses = addresses_at(location)
    names = ("locations", "location", "run", "jobs", "job", "inbox", "question", "fork", "project")
    with opening(browser, live_server.url, "view") as open_page:
        assert faults_of(open_page("/"), {name: addresses[name] for name in names}) == ""


def test_login_pages(browser: Browser, live_server: LiveServer) -> None:
    page = browser.new_context(base_url=live_server.url).new_page()
    page.goto("/jobs/")
    assert findings(page) == ""
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".notice-bad").first).to_be_visible()
    assert findings(page) == ""
    page.goto(f"{reverse('login-link')}?token=used")
    assert findings(page) == ""
    page.context.close()


@pytest.mark.parametrize("name", FAULTS)
def test_error_pages(open_page: Open, name: str) -> None:
    page = open_page("/nothing/")
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    body = render_to_string(name, {}, request)
    page.route("**/fault/", lambda route: route.fulfill(status=500, content_type="text/html", body=body))
    page.goto("/fault/")
    assert findings(page) == ""


def test_axe_finds_a_fault(open_page: Open) -> None:
    page = open_page("/")
    faults = '<img src="/x"><input><a href="/"></a>'
    page.evaluate("html => document.querySelector('main').insertAdjacentHTML('beforeend', html)", faults)
    found = findings(page)
    assert all(rule in found for rule in ("image-alt", "label", "link-name")), found
