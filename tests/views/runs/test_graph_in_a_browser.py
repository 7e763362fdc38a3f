"""The graph of a run: what is in view, the map, and refreshes."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import branched_run
from tests.views.browsing import Open, opening
from viewer.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
VIEW = "document.getElementById('graph-picture').getAttribute('viewBox')"
# Showing the same part again after a refresh may change a fraction of a pixel.
IS_NEAR = f"(before) => {VIEW}.split(' ').every((part, at) => Math.abs(part - before.split(' ')[at]) < 1)"


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


@pytest.fixture
def run(transactional_db: None) -> Run:
    return branched_run(["main", *(f"fork-{number}" for number in range(30))])


def graph_page(open_page: Open, run: Run) -> Page:
    page = open_page(f"{run.get_absolute_url()}?view=graph")
    expect(page.get_by_role("button", name="Whole lineage")).to_be_visible()
    # Django's live server has no sockets. This message makes the graph lower.
    expect(page.get_by_text("Reconnecting…").first).to_be_visible()
    return page


def test_a_large_graph_opens_readable_with_a_map(open_page: Open, run: Run) -> None:
    page = graph_page(open_page, run)
    expect(page.locator(".graph-map")).to_be_visible()
    expect(page.locator('.graph-node[aria-current="true"] .graph-branch')).to_be_visible()
    page.keyboard.press("0")
    expect(page.locator(".graph-map")).to_be_hidden()
    expect(page.locator(".graph-branch").first).to_be_hidden()
    page.get_by_role("button", name="Selected").click()
    expect(page.locator('.graph-node[aria-current="true"] .graph-branch')).to_be_visible()


def test_a_focused_node_comes_into_view(open_page: Open, run: Run) -> None:
    page = graph_page(open_page, run)
    page.locator(".graph-node").nth(5).focus()
    page.keyboard.press("Home")
    expect(page.locator(".graph-node").first).to_be_in_viewport()
    expect(page.locator(".graph-node").first.locator(".graph-branch")).to_be_visible()


def test_dragging_moves_the_graph_and_opens_nothing(open_page: Open, run: Run) -> None:
    page = graph_page(open_page, run)
    before, address = page.evaluate(VIEW), page.url
    box = page.locator('.graph-node[aria-current="true"]').bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 90, steps=4)
    page.mouse.up()
    assert page.evaluate(VIEW) != before
    assert page.url == address


def test_a_refresh_keeps_what_is_in_view(open_page: Open, run: Run) -> None:
    page = graph_page(open_page, run)
    page.keyboard.press("+")
    before = page.evaluate(VIEW)
    run.checkpoints.filter(is_branch_head=True).update(trigger="task_failed")
    with page.expect_response(lambda answer: "view=graph" in answer.url):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('location-changed'))")
    expect(page.locator(".graph-node.is-failure").first).to_be_attached()
    page.wait_for_function(IS_NEAR, arg=before)


def test_folded_forks_open_in_place_with_the_keyboard(open_page: Open, transactional_db: None) -> None:
    run = branched_run(["main", *(f"fork-{number}" for number in range(200))], 2)
    selected = run.checkpoints.filter(branch="main").latest("row")
    page = open_page(f"{run.get_absolute_url()}?view=graph&at={selected.checkpoint_id}")
    fold = page.locator("a.graph-fold")
    expect(fold).to_contain_text("200 forks")
    expect(page.locator(".graph-node")).to_have_count(3)
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_contain_text("150 more forks")
    expect(page.locator(".graph-node")).to_have_count(53)
    expect(page.locator('.graph-node[aria-current="true"]')).to_have_count(1)
    assert f"at={selected.checkpoint_id}" in page.url and "opened=50" in page.url
    page.get_by_role("link", name="Fold the forks").click()
    expect(page.locator(".graph-node")).to_have_count(3)
