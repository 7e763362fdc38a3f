"""The page of a growing run in a real browser: visible rows stay in place, new rows are announced."""

import pytest
from django.db.models import F
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.lineage.generated_runs import generated_run
from tests.live.server import Server
from tests.waiting import wait_until
from viewer.models import Checkpoint, Job, Location, Run, StoredCopy

pytestmark = pytest.mark.browser


@pytest.fixture
def run(transactional_db: None) -> Run:
    return generated_run(60)


def grow(run: Run, count: int = 1) -> list[Checkpoint]:
    """Add checkpoints as an import does."""
    made = []
    for _ in range(count):
        last = run.checkpoints.select_related("stored_copy").latest("row")
        body = StoredCopy.objects.get(pk=last.pk)
        new = Checkpoint.objects.get(pk=last.pk)
        new.pk, new.row, new.parent = None, last.row + 1, last
        new.checkpoint_id = new.source_key = f"new-{last.row + 1}"
        new.parent_link = Checkpoint.ParentLink.RECORDED
        new.save(force_insert=True)
        body.pk = new.pk
        body.save(force_insert=True)
        made.append(new)
    Run.objects.filter(pk=run.pk).update(checkpoint_count=F("checkpoint_count") + count)
    Location.objects.filter(pk=run.location_id).update(revision=F("revision") + 1)
    return made


def top_of(page: Page, checkpoint: Checkpoint) -> float:
    """Return the position of the checkpoint's row once it is visible."""
    expect(page.locator(f"#c{checkpoint.pk}")).to_be_in_viewport()
    # In one step: a refresh may replace a located row before it is measured, and its top would be 0.
    top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", f"c{checkpoint.pk}")
    return float(top)


def test_new_rows_above_the_visible_ones_are_announced_with_a_link(page: Page, run: Run) -> None:
    page.goto(run.get_absolute_url())
    page.locator("#lineage").evaluate("list => list.scrollTop = 300")
    read = run.checkpoints.get(row=40)
    before = top_of(page, read)
    grow(run)
    button = page.get_by_role("button", name="1 new checkpoint")
    expect(button).to_be_visible()
    new = grow(run, 2)
    button = page.get_by_role("button", name="3 new checkpoints")
    expect(button).to_be_visible()
    assert top_of(page, read) == before
    button.click()
    expect(button).to_be_hidden()
    expect(page.locator(f"#c{new[-1].pk}")).to_be_in_viewport()
    expect(page.locator(f"#c{new[-1].pk}")).to_be_focused()


# Collects the texts of the button that announces new checkpoints, however shortly it is visible.
RECORD_ANNOUNCEMENTS = """() => {
  window.announced = [];
  new MutationObserver((changes) => {
    const buttons = changes.map(({ target }) => target).filter(({ id }) => id === "rows-new");
    announced.push(...buttons.filter(({ hidden }) => !hidden).map(({ textContent }) => textContent));
  }).observe(document.body, { attributes: true, attributeFilter: ["hidden"], subtree: true });
}"""


def test_the_page_follows_what_was_started_until_the_person_scrolls(page: Page, run: Run) -> None:
    head = run.checkpoints.latest("row")
    job = Job.objects.create(
        kind=Job.Kind.RESUME,
        location=run.location,
        run=run,
        checkpoint=head,
        branch=head.branch,
        status=Job.Status.RUNNING,
        started_at=timezone.now(),
    )
    opened = page.locator(".detail-id")
    page.goto(f"{run.checkpoints.get(row=57).get_absolute_url()}&job={job.pk}")
    follow = page.locator("[data-follow]")
    expect(page.locator("[data-job-bar]")).to_be_visible()
    expect(follow).to_be_hidden()
    page.evaluate(RECORD_ANNOUNCEMENTS)
    for _ in range(2):
        (new,) = grow(run)
        expect(opened).to_have_text(new.checkpoint_id)
        expect(page.locator(f"#c{new.pk}")).to_be_in_viewport()
    assert f"at={new.checkpoint_id}" in page.url
    assert page.evaluate("announced") == []
    page.locator("#lineage").hover()
    page.mouse.wheel(0, 200)
    expect(follow).to_be_visible()
    (unread,) = grow(run)
    expect(page.get_by_role("button", name="1 new checkpoint")).to_be_visible()
    expect(opened).to_have_text(new.checkpoint_id)
    follow.click()
    expect(opened).to_have_text(unread.checkpoint_id)
    expect(follow).to_be_hidden()


def test_a_selected_parent_does_not_move(page: Page, run: Run) -> None:
    parent = run.checkpoints.get(row=57)
    page.goto(parent.get_absolute_url())
    before = top_of(page, parent)
    grow(run, 3)
    expect(page.get_by_role("button", name="3 new checkpoints")).to_be_visible()
    assert top_of(page, parent) == before


def test_new_rows_appear_at_the_top(page: Page, run: Run) -> None:
    page.goto(run.get_absolute_url())
    (new,) = grow(run)
    expect(page.locator(f"#c{new.pk}")).to_be_in_viewport()


def test_children_of_the_selected_checkpoint_appear(page: Page, run: Run) -> None:
    last = run.checkpoints.latest("row")
    page.goto(f"{last.get_absolute_url()}&tab=overview")
    expect(page.locator("#children")).to_have_text("None")
    (new,) = grow(run)
    expect(page.locator("#children")).to_contain_text(new.checkpoint_id)


def test_a_run_that_ended_while_the_server_was_down_is_not_live(
    page: Page,
    run: Run,
    server: Server,
) -> None:
    head = run.checkpoints.filter(is_branch_head=True).latest("row")
    job = Job.objects.create(
        kind="resume", location=run.location, run=run, branch=head.branch, status=Job.Status.RUNNING
    )
    page.goto(run.get_absolute_url())
    live = page.locator(".row-tokens", has_text="live")
    expect(live).to_have_count(1)
    server.end()
    job.end(Job.Status.SUCCEEDED)
    server.start()
    wait_until(server.answers)
    expect(live).to_have_count(0)


def test_a_job_that_has_not_begun_is_not_live(page: Page, run: Run) -> None:
    head = run.checkpoints.filter(is_branch_head=True).latest("row")
    Job.objects.create(kind="resume", location=run.location, run=run, branch=head.branch, status="queued")
    page.goto(run.get_absolute_url())
    expect(page.locator(".row-tokens").first).to_be_attached()
    expect(page.locator(".row-tokens", has_text="live")).to_have_count(0)


def test_a_row_of_failed_attempts_is_not_marked_as_selected(page: Page, run: Run) -> None:
    start = run.checkpoints.get(row=55)
    for branch in ("one", "two"):
        Job.objects.create(
            kind="fork", location=run.location, run=run, checkpoint=start, branch=branch, status="failed"
        )
    page.goto(start.get_absolute_url())
    grow(run)
    expect(page.get_by_role("button", name="1 new checkpoint")).to_be_visible()
    expect(page.locator(".row [aria-current]")).to_have_count(1)
    page.get_by_role("link", name="2 failed attempts").click()
    expect(page.locator(".row-attempt")).to_have_count(2)
    expect(page.locator(".row [aria-current]")).to_have_attribute("id", f"c{start.pk}")
