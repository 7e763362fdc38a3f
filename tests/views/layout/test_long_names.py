"""Long names are cut to two lines in headings and breadcrumbs, with the whole in reach, and in tab titles."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tests.views.browsing import Open, opening
from viewer.models import Run

LONG = "a name with <b>markup</b> & words " * 9
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


@pytest.fixture
def long_run(crew_run: Run) -> Run:
    """Return a run whose name and newest branch have 300 characters."""
    Run.objects.filter(pk=crew_run.pk).update(name=LONG[:300])
    head = crew_run.checkpoints.latest("row")
    crew_run.checkpoints.filter(branch=head.branch).update(branch=("branch-" * 43)[:-1])
    crew_run.refresh_from_db()
    return crew_run


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


def test_a_tab_title_begins_with_the_step(reader: Client, long_run: Run) -> None:
    run = long_run.get_absolute_url()
    page = reader.get(run).content.decode()
    part = reader.get(run, headers={"HX-Request": "true", "HX-Target": "detail"}).content.decode()
    for html in (page, part):
        title = unescape(TITLE.findall(html)[0])
        assert title.startswith(
            "task 2 of 3 completed, branch-bra…ch-branch · a name with <b>markup</b> & words"
        )
        assert len(title) <= 132 and title.endswith("… · Forkline") and "\n" not in title
    timeline = reader.get(reverse("run-timeline", args=[long_run.uid])).content.decode()
    assert unescape(TITLE.findall(timeline)[0]).startswith("Timeline, a name with <b>")


def heights(page: Page, selector: str) -> list[float]:
    script = "all => all.map(one => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight))"
    found: list[float] = page.locator(selector).evaluate_all(script)
    return found


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_headings_and_breadcrumbs_have_two_lines_and_open(open_page: Open, long_run: Run, width: int) -> None:
    page = open_page(long_run.get_absolute_url() + "?view=graph", viewport={"width": width, "height": 800})
    toggle = page.locator("h1 + .name-toggle")
    toggle.wait_for()
    assert heights(page, "h1") == [pytest.approx(2, abs=0.3)]
    assert all(height <= 2.5 for height in heights(page, ".breadcrumb :is(a, [aria-current])"))
    assert toggle.get_attribute("aria-expanded") == "false"
    toggle.focus()
    page.keyboard.press("Enter")
    assert heights(page, "h1")[0] > 2.5 or width == 1440
    assert toggle.get_attribute("aria-expanded") == "true"
    toggle.click()
    assert heights(page, "h1") == [pytest.approx(2, abs=0.3)]
