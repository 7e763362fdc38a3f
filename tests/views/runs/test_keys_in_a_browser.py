"""The keys of the page of a run, on one page."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import branched_run
from tests.views.browsing import opening
from viewer.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OUTLINE = "getComputedStyle(document.activeElement).outlineStyle"

Row = Callable[[int], str]


@pytest.fixture
def run(transactional_db: None) -> Run:
    """Create three branches, whose rows alternate: 17, 14, 11 … are of the last one."""
    return branched_run(("main", "year-2030", "shorter"))


@pytest.fixture
def page(browser: Browser, live_server: LiveServer, run: Run) -> Iterator[Page]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser(run.get_absolute_url())


@pytest.fixture
def row(run: Run) -> Row:
    """Return a function from the number of a row to its selector."""
    keys = dict(run.checkpoints.values_list("row", "pk"))
    return lambda number: f"#c{keys[number]}"


def test_every_key(page: Page, row: Row, run: Run) -> None:
    moves_through_the_list(page, row)
    follows_branches(page, row)
    shows_the_focus_only_for_keys(page, row)
    collapses(page, row)
    opens(page, row, run)
    types_letters_into_fields(page)


def press(page: Page, keys: str, expected: str) -> None:
    """Press keys, and expect this element to have the focus after the last one."""
    for key in keys.split():
        page.keyboard.press(key)
    expect(page.locator(expected)).to_be_focused()


def moves_through_the_list(page: Page, row: Row) -> None:
    press(page, "ArrowDown", row(16))
    press(page, "j", row(15))
    press(page, "k k", row(17))
    press(page, "End", row(0))
    press(page, "ArrowUp", row(1))
    press(page, "Home ArrowUp", row(17))


def follows_branches(page: Page, row: Row) -> None:
    press(page, "Control+ArrowDown", row(14))
    press(page, "Control+ArrowDown", row(11))
    press(page, "Control+ArrowUp", row(14))
    press(page, "Shift+ArrowDown", row(13))
    press(page, "Shift+ArrowUp", row(14))
    # The first checkpoint has three children; the way up leads to the oldest of them.
    press(page, "End Control+ArrowUp", row(1))
    press(page, "Control+ArrowDown Control+ArrowDown", row(0))
    press(page, "Home", row(17))


def shows_the_focus_only_for_keys(page: Page, row: Row) -> None:
    assert page.evaluate(OUTLINE) == "solid"
    page.locator(row(12)).click()
    expect(page.locator(row(12))).to_have_attribute("aria-current", "true")
    assert page.evaluate(OUTLINE) == "none"
    press(page, "ArrowDown", row(11))
    assert page.evaluate(OUTLINE) == "solid"
    press(page, "Home", row(17))


def collapses(page: Page, row: Row) -> None:
    rows = page.locator(".row")
    expect(rows).to_have_count(18)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(13)
    expect(page.locator(row(17))).to_be_focused()
    expect(page.locator(row(17))).to_contain_text("5 collapsed")
    assert "collapsed=" in page.url
    page.go_back()
    expect(rows).to_have_count(18)
    page.go_forward()
    expect(rows).to_have_count(13)
    page.locator(row(17)).focus()
    # The parent of the collapsed line is the first checkpoint.
    press(page, "Control+ArrowDown", row(0))
    press(page, "Home", row(17))
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(18)
    expect(page.locator(row(17))).to_be_focused()


def opens(page: Page, row: Row, run: Run) -> None:
    press(page, "ArrowDown ArrowDown", row(15))
    page.keyboard.press("Enter")
    expect(page.locator(".detail-id")).to_have_text(run.checkpoints.get(row=15).checkpoint_id)
    page.keyboard.press("c")
    expect(page.locator("#picks")).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator("#picks")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    press(page, "b", "#branches li:first-child a:first-child")
    page.keyboard.press("Escape")
    expect(page.locator("#branches")).to_be_hidden()
    for key in ("f", "r"):
        expect(page.locator(f'#detail [data-key="{key}"]')).to_have_count(1)


def types_letters_into_fields(page: Page) -> None:
    page.keyboard.press("/")
    expect(page.locator("#palette-input")).to_be_focused()
    page.keyboard.type("j?f/b")
    expect(page.locator("#palette-input")).to_have_value("j?f/b")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
