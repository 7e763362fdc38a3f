"""The stops on the way of somebody new show what matters on their first screen, at every width."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Locator, Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.imported import imported_location
from tests.langgraph.conftest import copied, opened
from tests.views.browsing import Open, opening, resize
from tests.views.forking import checked, create_location
from viewer.host_requests import ReadBody, ask
from viewer.models import Checkpoint, Job, Location, Run, StoredCopy

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# The last is a laptop at 200 %.
SIZES = ((390, 844), (820, 1180), (1440, 900), (1920, 1080), (720, 450))
RECORDED = Path(__file__).resolve().parents[2] / "recorded_stores"


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    """Return a function that opens a page at the first size."""
    width, height = SIZES[0]
    with opening(browser, live_server.url) as open_in_browser:
        yield partial(open_in_browser, viewport={"width": width, "height": height})


def at_each_size(page: Page) -> Iterator[int]:
    """Show the page as it was loaded at the first size, then its top at the others. Yield the width."""
    yield SIZES[0][0]
    for width, height in SIZES[1:]:
        resize(page, width, height)
        yield width


@pytest.fixture
def waiting(tmp_path: Path, transactional_db: None) -> Run:
    """Return a thread that waits for an answer."""
    location = imported_location(copied("lg12", tmp_path))
    folder = create_location(tmp_path / "support")
    location.project = folder.project
    location.save()
    folder.delete()
    run = opened(location, "appr-waiting")
    location.runs.exclude(pk=run.pk).delete()
    return run


def is_on_first_screen(part: Locator) -> bool:
    """Return whether the whole part is visible without scrolling."""
    box, window = part.bounding_box(), part.page.viewport_size
    assert box and window
    return box["y"] >= 0 and box["y"] + box["height"] <= window["height"] and box["width"] > 40


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_an_empty_install_shows_what_to_add(open_page: Open, settings: Settings, tmp_path: Path) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    shutil.copytree(RECORDED / "1.15.30/json", tmp_path / "newsroom/.checkpoints")
    page = open_page("/")
    found = page.locator("li, tr").filter(has_text=".checkpoints").filter(has=page.get_by_role("button"))
    found.first.wait_for()
    for width in at_each_size(page):
        assert is_on_first_screen(page.get_by_label("Folder or SQLite file")), width
        assert is_on_first_screen(found.first.get_by_role("button", name="Add")) and fits(page), width


def test_a_finished_checkpoint_shows_its_output(open_page: Open, crew_run: Run) -> None:
    finished = crew_run.checkpoints.filter(trigger="task_completed").latest("row")
    page = open_page(finished.get_absolute_url())
    output = page.locator(".detail .output :is(.prose, .text-block, .code-block):visible").first
    fork = page.locator(".detail").get_by_role("link", name="Fork", exact=True).first
    for width in at_each_size(page):
        assert is_on_first_screen(output) and is_on_first_screen(fork) and fits(page), width


def test_a_waiting_checkpoint_asks_with_its_choices(open_page: Open, waiting: Run) -> None:
    page = open_page(f"{reverse('run-jump', args=[waiting.uid])}?to=waiting")
    asked = page.locator(".asked .question").first
    for width in at_each_size(page):
        assert is_on_first_screen(asked.locator(".question-prompt")), width
        assert is_on_first_screen(asked.locator(".button").first) and fits(page), width


def test_the_inbox_asks_and_its_question_stays_while_the_list_refreshes(
    open_page: Open, waiting: Run
) -> None:
    page = open_page(reverse("inbox"))
    asked = page.locator(".inbox-asked .asked")
    asked.wait_for()
    for width in at_each_size(page):
        row, box = page.locator(".inbox-row").bounding_box(), asked.bounding_box()
        assert row and box and box["width"] == pytest.approx(row["width"], abs=1), width
        assert is_on_first_screen(asked.locator(".button").first) and fits(page), width
    asked.evaluate("element => { element.dataset.same = 'yes'; }")
    with page.expect_response("**/inbox/waiting/"):
        pass
    page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')")
    assert asked.get_attribute("data-same") == "yes"


def test_a_fork_form_shows_the_value_before_its_field(open_page: Open, checkpoint: Checkpoint) -> None:
    checked(checkpoint)
    page = open_page(reverse("fork", args=[checkpoint.pk]))
    field = page.get_by_label("year", exact=True)
    for width in at_each_size(page):
        field.fill("2031")
        assert is_on_first_screen(field) and fits(page), width
        before = page.locator(".value-stored").filter(has_text="2026").bounding_box()
        after = field.bounding_box()
        assert before and after
        if width < 560:
            assert before["y"] + before["height"] <= after["y"] + 1, width
        else:
            assert before["x"] < after["x"], width


def test_a_started_fork_is_in_sight(open_page: Open, checkpoint: Checkpoint) -> None:
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=checkpoint.location.project,
        branch="year-2031",
        status=Job.Status.RUNNING,
        started_at=timezone.now(),
    )
    page = open_page(f"{checkpoint.get_absolute_url()}&job={job.pk}")
    bar = page.locator(".job-bar")
    bar.wait_for()
    for width in at_each_size(page):
        assert "year-2031" in bar.inner_text() and fits(page), width
        assert is_on_first_screen(bar.get_by_role("button", name="Cancel")), width


def test_publish_is_in_sight(open_page: Open, waiting: Run) -> None:
    """Below what it writes. The name of this test is a part of the path that the page shows on one line."""
    draft = waiting.checkpoints.latest("row")
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=waiting.location, run=waiting, branch="cats", status=Job.Status.SUCCEEDED
    )
    body = ask(ReadBody(draft.pk))
    StoredCopy.objects.update_or_create(checkpoint=draft, defaults={"data": body})
    Checkpoint.objects.filter(pk=draft.pk).update(
        source_key=f"{Checkpoint.SCRATCH}{job.pk}/{draft.source_key}"
    )
    page = open_page(reverse("publish", args=[draft.pk]))
    publish = page.get_by_role("button", name="Publish", exact=True)
    for width in at_each_size(page):
        assert is_on_first_screen(page.get_by_label("Name of the new thread")), width
        assert is_on_first_screen(publish) and fits(page), width


def test_a_comparison_shows_both_sides_one_above_the_other_on_a_phone(open_page: Open, crew_run: Run) -> None:
    one, other = crew_run.checkpoints.order_by("row").filter(trigger="task_completed")[:2]
    sides = [f"{crew_run.uid}/{side.checkpoint_id}" for side in (one, other)]
    page = open_page(f"{reverse('compare')}?a={sides[0]}&b={sides[1]}")
    cells = page.locator(".compare-table tbody tr", has=page.locator("td")).first.locator("td")
    columns = page.locator(".compare-column")
    for width in at_each_size(page):
        for sides_of_one, stacked_to in ((cells, 560), (columns, 760)):
            first, second = sides_of_one.nth(0).bounding_box(), sides_of_one.nth(1).bounding_box()
            assert first and second
            if width <= stacked_to:
                assert first["y"] + first["height"] <= second["y"] + 1, width
                assert abs(first["x"] - second["x"]) < 1, width
            else:
                assert abs(first["y"] - second["y"]) < 1, width
                assert first["x"] + first["width"] <= second["x"] + 1, width
        assert is_on_first_screen(cells.first) and fits(page), width


def test_what_would_be_deleted_is_counted_and_listed(open_page: Open, crew_location: Location) -> None:
    page = open_page(f"{reverse('prune', args=[crew_location.uid])}?days=0")
    page.get_by_role("button", name="Delete these").wait_for()
    for width in at_each_size(page):
        assert is_on_first_screen(page.get_by_text("would be deleted").first) and fits(page), width
