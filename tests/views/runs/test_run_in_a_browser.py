"""The page of a run in a real browser: selection, keys, history, small screens and no scripts."""

import re
from collections.abc import Iterator

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import generated_run
from tests.views.browsing import Open, opening
from tests.views.forking import checked
from tests.waiting import wait_until
from viewer.models import Checkpoint, Job, Run
from viewer.presentation.run.window import ROWS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


@pytest.fixture
def run(transactional_db: None) -> Run:
    return generated_run(450)


CURRENT_ROWS = (".row a[aria-current]", ".row a:not([aria-current])")


def address_of(run: Run, row: int) -> str:
    return f"{run.get_absolute_url()}?at={run.checkpoints.get(row=row).checkpoint_id}"


def test_a_copied_link_opens_the_same_view(open_page: Open, run: Run, live_server: LiveServer) -> None:
    page = open_page(address_of(run, 440), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="More actions for the checkpoint").click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == live_server.url + address_of(run, 440)


def test_selecting_does_not_reload_or_scroll(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url())
    page.locator("#lineage").evaluate("list => list.scrollTop = 600")
    chosen = run.checkpoints.get(row=420)
    page.locator(f"#c{chosen.pk}").click()
    expect(page.locator(".detail-id")).to_have_text(chosen.checkpoint_id)
    expect(page.locator(f"#c{chosen.pk}")).to_have_attribute("aria-current", "true")
    expect(page.locator(".row [aria-current]")).to_have_count(1)
    assert page.locator("#lineage").evaluate("list => list.scrollTop") == 600
    assert page.url.endswith(address_of(run, 420))


def test_the_tab_stays_open_and_back_returns_to_the_previous_selection(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 449))
    page.get_by_role("link", name="Events").click()
    expect(page.locator(".tabs [aria-current]")).to_have_text("Events")
    assert page.url.endswith(f"{address_of(run, 449)}&tab=events")
    page.locator(f"#c{run.checkpoints.get(row=448).pk}").click()
    expect(page.locator(".detail-id")).to_have_text(run.checkpoints.get(row=448).checkpoint_id)
    expect(page.locator(".tabs [aria-current]")).to_have_text("Events")
    page.go_back()
    expect(page.locator(".detail-id")).to_have_text(run.checkpoints.get(row=449).checkpoint_id)
    expect(page.locator(".tabs [aria-current]")).to_have_text("Events")


def test_keys_move_by_row_and_by_parent(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 440))
    page.keyboard.press("ArrowDown")
    expect(page.locator(f"#c{run.checkpoints.get(row=439).pk}")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Control+ArrowDown")
    start = run.checkpoints.get(row=440)
    expect(page.locator(f"#c{start.parent_id}")).to_be_focused()
    page.keyboard.press("Enter")
    assert start.parent
    expect(page.locator(".detail-id")).to_have_text(start.parent.checkpoint_id)


def test_focus_stays_on_the_opened_element(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 440))
    events = page.get_by_role("link", name="Events", exact=True)
    events.press("Enter")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Events")
    expect(events).to_be_focused()
    page.get_by_role("link", name="Overview", exact=True).last.press("Enter")
    parent = run.checkpoints.get(row=440).parent
    assert parent
    link = page.locator(".facts").get_by_role("link", name=parent.checkpoint_id)
    link.wait_for()
    # Until htmx has added its listeners, a link loads a whole page.
    expect(page.locator(".htmx-added, .htmx-settling")).to_have_count(0)
    # The link was replaced with the previous checkpoint.
    link.press("Enter")
    expect(page.locator(".detail-id")).to_have_text(parent.checkpoint_id)
    expect(page.locator("#detail")).to_be_focused()


def test_the_list_is_one_tab_stop(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 440))
    stops = "[...document.querySelectorAll('.row a')].filter(row => row.tabIndex === 0).map(row => row.id)"
    assert page.evaluate(stops) == [f"c{run.checkpoints.get(row=440).pk}"]
    page.locator(f"#c{run.checkpoints.get(row=440).pk}").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(stops) == [f"c{run.checkpoints.get(row=439).pk}"]
    page.keyboard.press("Home")
    expect(page.locator(f"#c{run.checkpoints.get(row=449).pk}")).to_be_focused()
    # Older rows are loaded at the end of the list.
    with page.expect_response(lambda answer: "/rows/" in answer.url):
        page.keyboard.press("End")
    older = re.compile(f"from={449 - 2 * ROWS}")
    expect(page.locator(".rows-beyond a").last).to_have_attribute("href", older)
    page.keyboard.press("Home")
    expect(page.locator(f"#c{run.checkpoints.get(row=449).pk}")).to_be_focused()
    in_detail = "document.getElementById('detail').contains(document.activeElement)"
    reached = []
    for _tab in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(in_detail))
    assert any(reached)
    page.locator(f"#c{run.checkpoints.get(row=449).pk}").focus()
    page.keyboard.press("Shift+Tab")
    assert not page.evaluate("document.getElementById('lineage').contains(document.activeElement)")


def test_older_rows_are_loaded_before_the_end_of_the_list(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url())
    box, rows = page.locator("#lineage"), page.locator("#lineage .row")
    expect(rows).to_have_count(ROWS)
    with page.expect_response(lambda answer: "/rows/" in answer.url):
        box.evaluate("list => list.scrollTop = list.scrollHeight - 2 * list.clientHeight")
    expect(rows).to_have_count(2 * ROWS)
    assert box.evaluate("list => list.scrollHeight - list.clientHeight - list.scrollTop") > 0


def test_boxes_that_scroll_are_opaque(open_page: Open, run: Run) -> None:
    """Otherwise Chromium paints all of them in each frame."""
    page = open_page(run.get_absolute_url())
    for box in ("#lineage", ".detail-body"):
        background = page.locator(box).evaluate("box => getComputedStyle(box).backgroundColor")
        assert background.startswith("rgb(")


def test_one_row_stays_the_tab_stop_when_rows_are_replaced(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 440))
    kept = run.checkpoints.get(row=438)
    page.locator(f"#c{kept.pk}").focus()
    with page.expect_response(lambda answer: "/rows/" in answer.url):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('location-changed'))")
    expect(page.locator(f"#c{kept.pk}")).to_be_focused()
    expect(page.locator('.row a[tabindex="0"]')).to_have_count(1)
    expect(page.locator(f"#c{kept.pk}")).to_have_attribute("tabindex", "0")


def test_the_graph_is_one_tab_stop(open_page: Open, run: Run) -> None:
    page = open_page(f"{run.get_absolute_url()}?view=graph")
    nodes = page.locator(".graph-node")
    expect(page.locator('.graph-node[tabindex="0"]')).to_have_count(1)
    nodes.first.focus()
    page.keyboard.press("ArrowRight")
    expect(nodes.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator('.graph-node[aria-current="true"]')).to_have_count(1)


def test_the_selection_is_visible_with_forced_colours(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 440), forced_colors="active")
    line = """part => {
      const style = getComputedStyle(part);
      return [style.borderBottomColor, style.borderBottomWidth, style.outlineStyle, style.borderLeftWidth];
    }"""
    for selected, other in ((".tabs a[aria-current]", ".tabs a:not([aria-current])"), CURRENT_ROWS):
        assert page.locator(selected).evaluate(line) != page.locator(other).first.evaluate(line), selected
    row = page.locator(".row a[aria-current]")
    resting = row.evaluate(line)
    row.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert row.evaluate(line) != resting


def test_the_letter_on_a_button_activates_it(open_page: Open, run: Run) -> None:
    page = open_page(address_of(run, 449))
    page.keyboard.press("f")
    # The project is not confirmed yet, so that page comes first.
    expect(page).to_have_title(re.compile("project", re.IGNORECASE))


def test_older_rows_load_while_scrolling(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url())
    expect(page.locator(".row")).to_have_count(ROWS)
    for loaded in (2 * ROWS, 3 * ROWS):
        page.locator("#lineage").evaluate("list => list.scrollTop = list.scrollHeight")
        expect(page.locator(".row")).to_have_count(loaded)


def test_new_rows_do_not_move_visible_rows(open_page: Open, run: Run) -> None:
    run.checkpoints.filter(row__gt=430).update(row=10_000)
    page = open_page(run.get_absolute_url())
    page.locator("#lineage").evaluate("list => list.scrollTop = 900")
    mark = page.locator(f"#c{run.checkpoints.get(row=400).pk}")
    before = mark.bounding_box()
    for number, checkpoint in enumerate(run.checkpoints.filter(row=10_000)):
        checkpoint.row = 431 + number
        checkpoint.save(update_fields=["row"])
    page.evaluate("document.body.dispatchEvent(new CustomEvent('location-changed'))")
    expect(page.locator(f"#c{run.checkpoints.get(row=449).pk}")).to_be_attached()
    # The list is replaced, and then scrolled.
    wait_until(lambda: mark.bounding_box() == before)


def test_a_small_screen_shows_the_list_then_the_detail_with_a_back_link(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url(), viewport={"width": 390, "height": 844})
    expect(page.locator(".detail")).to_be_hidden()
    row = page.locator(".row a").nth(70)
    row.click()
    expect(page.locator(".run-lineage")).to_be_hidden()
    expect(page.locator(".detail h2")).to_be_visible()
    expect(page.locator("#detail")).to_be_focused()
    page.get_by_role("link", name="All checkpoints").click()
    expect(page.locator(".run-lineage")).to_be_visible()
    expect(row).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_small_screen_shows_the_outcome_next_to_a_long_branch_name(open_page: Open, run: Run) -> None:
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=run.location,
        run=run,
        branch="a name that goes on and on " * 8,
        status=Job.Status.FAILED,
        error="RuntimeError: the model is not there",
        ended_at=timezone.now(),
    )
    page = open_page(job.get_absolute_url(), viewport={"width": 390, "height": 844})
    sentence = page.locator(".job-sentence")
    expect(sentence).to_contain_text("failed")
    assert sentence.evaluate("words => words.scrollWidth <= words.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_page_works_without_scripts(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url(), java_script_enabled=False)
    page.get_by_role("link", name="Older checkpoints").click()
    page.locator(".row a").nth(3).click()
    page.get_by_role("link", name="Events").click()
    expect(page.locator(".tabs [aria-current]")).to_have_text("Events")
    expect(page.locator(".row [aria-current]")).to_have_count(1)


@pytest.mark.parametrize("screen", [{"width": 390, "height": 844}, {"width": 720, "height": 450}])
def test_the_first_screen_of_a_finished_checkpoint_shows_its_output(
    open_page: Open, crew_run: Run, screen: dict[str, int]
) -> None:
    head = crew_run.checkpoints.latest("row")
    page = open_page(head.get_absolute_url(), viewport=screen)
    box = page.locator(".rendered-panes").bounding_box()
    assert box and box["y"] + 2 * 20 <= screen["height"], "At least two lines are on the first screen."


def test_a_wide_panel_shows_the_source_next_to_the_rendered_output(open_page: Open, crew_run: Run) -> None:
    address = crew_run.checkpoints.latest("row").get_absolute_url()
    page = open_page(address, viewport={"width": 1920, "height": 1080})
    rendered, source = (page.locator(f".rendered-panes {one}").bounding_box() for one in (".prose", "pre"))
    assert rendered and source and source["x"] > rendered["x"] and source["y"] == rendered["y"]
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator(".rendered-source")).to_be_hidden()
    page.get_by_role("link", name="source").click()
    expect(page.locator(".rendered-source")).to_be_visible()
    expect(page.locator(".rendered .prose")).to_be_hidden()
    page.locator(".row a:not(.row-toggle)").nth(2).click()
    expect(page.locator(".rendered-source")).to_be_visible()


def test_a_row_pressed_while_the_server_is_lost_opens_once_it_answers(open_page: Open, run: Run) -> None:
    page = open_page(run.get_absolute_url())
    chosen = run.checkpoints.get(row=445)
    page.context.set_offline(True)
    page.locator(f"#c{chosen.pk}").press("Enter")
    expect(page.locator("#lost")).to_be_in_viewport()
    expect(page.locator("#lost")).to_contain_text("The server does not answer.")
    page.context.set_offline(False)
    expect(page.locator(".detail-id")).to_have_text(chosen.checkpoint_id, timeout=30_000)
    expect(page.locator("#lost")).to_be_hidden()


def test_edit_and_fork_leaves_the_run_and_opens_the_form_at_its_field(
    open_page: Open, checkpoint: Checkpoint
) -> None:
    # So that the form starts no preflight check.
    checked(checkpoint)
    page = open_page(f"{checkpoint.get_absolute_url()}&tab=tasks")
    page.get_by_role("link", name="Edit and fork").first.click()
    expect(page.get_by_role("heading", name="Fork", exact=True)).to_be_visible()
    expect(page.locator(".breadcrumb")).to_have_count(1)
    expect(page.locator("textarea:focus")).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("link", name="Edit and fork").first).to_be_visible()
