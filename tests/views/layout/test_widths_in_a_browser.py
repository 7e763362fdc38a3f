"""What is readable at each width, from a small screen to a large one, in both themes."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.lineage.generated_runs import branched_run
from tests.views.browsing import Open, opening, resize
from viewer.models import Checkpoint, Job, Location, Question, Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDTHS = (390, 820, 1024, 1440, 1920)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LONG = "fork/20261120T232827_877b0992_a-name-that-goes-on"
BRANCHES = (
    "main",
    "year-2030",
    "shorter-tone",
    LONG,
    *(f"fork/tone-{number}-of-voice" for number in range(4)),
)
SUBJECT = "Research {topic} and list what has changed since the last article about it, with sources"
# A text may be truncated, but not below this width.
READABLE = 11

# The parts of each row that are truncated, outside the row or covered by another text.
READ_ROWS = """(readable) => [...document.querySelectorAll('.row a:not(.row-toggle)')].flatMap(row => {
  const boxOf = (element) => element.getBoundingClientRect();
  const inside = boxOf(row);
  const said = (fault, part) => `${fault}: ${part.textContent}`;
  const faults = [];
  for (const part of row.querySelectorAll('.branch, .row-count, .chip, time')) {
    const [wide, high] = [part.scrollWidth - part.clientWidth, part.scrollHeight - part.clientHeight];
    if (!part.checkVisibility() || wide > 1 || high > 3) faults.push(said('cut', part));
    const box = boxOf(part);
    const isOut = box.left < inside.left || box.right > inside.right + 1 || box.bottom > inside.bottom + 1;
    if (isOut) faults.push(said('outside', part));
  }
  for (const part of row.querySelectorAll('.row-trigger, .row-subject')) {
    const range = document.createRange();
    range.setStart(part.firstChild, 0);
    range.setEnd(part.firstChild, Math.min(readable, part.textContent.length));
    const words = boxOf(range);
    const isShown = words.right <= boxOf(part).right + 1 && words.bottom <= inside.bottom + 1;
    if (!part.checkVisibility() || !isShown) faults.push(said('unreadable', part));
  }
  const parts = [...row.querySelectorAll('.row-text > :not(.visually-hidden), .row-count, time')];
  parts.forEach((one, number) => parts.slice(0, number).forEach(other => {
    const [a, b] = [boxOf(one), boxOf(other)];
    const meet = a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    if (a.width && b.width && meet) faults.push(`${one.textContent} is on ${other.textContent}`);
  }));
  return faults;
})"""
# Each dot is round, vertically centred in its row, and left of the text.
MISPLACED_DOTS = """() => {
  const links = [...document.querySelectorAll('.row a:not(.row-toggle)')];
  const rows = links.map(row => row.getBoundingClientRect());
  const words = [...document.querySelectorAll('.row-text')].map(part => part.getBoundingClientRect());
  const shapes = [...document.querySelectorAll('.dot > :last-child')];
  const dots = shapes.map(shape => shape.getBoundingClientRect());
  const isMisplaced = (dot, number) => {
    const off = dot.top + dot.height / 2 - rows[number].top - rows[number].height / 2;
    return Math.abs(off) > 2 || dot.right > words[number].left + 1 || Math.abs(dot.width - dot.height) > 3;
  };
  return dots.length === rows.length ? dots.filter(isMisplaced).length : -1;
}"""

# How far the centre of each dot is from the edge of the list at which lines begin.
GAPS = """() => {
  const list = document.querySelector('.rows').getBoundingClientRect();
  const isRightToLeft = getComputedStyle(document.body).direction === 'rtl';
  return [...document.querySelectorAll('.dot > :last-child')].map(dot => {
    const box = dot.getBoundingClientRect();
    const middle = (box.left + box.right) / 2;
    return isRightToLeft ? list.right - middle : middle - list.left;
  });
}"""

# How many pixels of a table of runs or jobs can only be seen by scrolling.
WIDEST_LIST = """() => Math.max(0, ...[...document.querySelectorAll('.table-scroll:has(.list-table)')].map(
  part => part.scrollWidth - part.clientWidth
))"""


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Open]:
    with opening(browser, live_server.url) as open_in_browser:
        yield open_in_browser


@pytest.fixture
def run(transactional_db: None) -> Run:
    """Create eight branches, including a long name, a failure, an edit and pruned checkpoints."""
    run = branched_run(BRANCHES)
    run.checkpoints.update(subject=SUBJECT)
    run.checkpoints.filter(row=9).update(trigger="crew_kickoff_started", subject="")
    run.checkpoints.filter(row__in=(20, 47)).update(state=Checkpoint.State.PRUNED)
    run.checkpoints.filter(row=30).update(state=Checkpoint.State.BROKEN)
    return run


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_every_row_shows_its_label(open_page: Open, run: Run) -> None:
    page = open_page(f"{run.get_absolute_url()}?pruned=shown")
    assert page.locator(".row").count() == run.checkpoints.count()
    for width in WIDTHS:
        resize(page, width)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(READ_ROWS, READABLE) == [], (width, theme)
            assert page.evaluate(MISPLACED_DOTS) == 0, (width, theme)
            assert page.locator(".branch[title]").filter(has_text="fork/…").first.is_visible(), (width, theme)
            assert overflow(page) <= 0, (width, theme)


@pytest.fixture
def everything(checkpoint: Checkpoint, location: Location) -> dict[str, str]:
    """Return the address of each screen, with long texts on each."""

    def made(branch: str, status: Job.Status, **values: Any) -> Job:
        return Job.objects.create(
            kind=Job.Kind.FORK,
            location=location,
            project=location.project,
            run=checkpoint.run,
            checkpoint=checkpoint,
            branch=branch,
            status=status,
            **values,
        )

    plan = [{"unit": "a", "title": SUBJECT, "agent": "Researcher", "action": "runs"}]
    job = made(LONG * 3, Job.Status.RUNNING, started_at=timezone.now(), plan=plan)
    error, traceback = "RuntimeError: " + "x" * 300, "Traceback " + "y" * 300
    failed = made(LONG, Job.Status.FAILED, ended_at=timezone.now(), error=error, traceback=traceback)
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which of them? " * 30)
    return {
        "home": reverse("home"),
        "locations": reverse("locations"),
        "location": location.get_absolute_url(),
        "run": checkpoint.run.get_absolute_url(),
        "checkpoint": checkpoint.get_absolute_url(),
        "fork": reverse("fork", args=[checkpoint.pk]),
        "resume": reverse("resume", args=[checkpoint.pk]),
        "vary": reverse("new-sweep", args=[checkpoint.pk]),
        "new run": reverse("new-run", args=[location.uid]),
        "project": reverse("project", args=[location.uid]),
        "jobs": reverse("jobs"),
        "job": job.get_absolute_url(),
        "failed job": failed.get_absolute_url(),
        "inbox": reverse("inbox"),
        "question": reverse("question", args=[job.pk, 1]),
    }


@pytest.fixture
def arabic(settings: Settings) -> None:
    settings.LANGUAGES = [("en", "English"), ("ar", "Arabic")]


@pytest.mark.usefixtures("arabic")
def test_the_lineage_is_mirrored_in_arabic(open_page: Open, run: Run) -> None:
    pages = {}
    for language, direction in (("en", "ltr"), ("ar", "rtl")):
        pages[language] = open_page(run.get_absolute_url(), locale=language)
        assert pages[language].locator("html").get_attribute("dir") == direction
    for width in (390, 1440):
        for page in pages.values():
            resize(page, width)
        gaps = {language: page.evaluate(GAPS) for language, page in pages.items()}
        assert len(gaps["en"]) > 10 and min(gaps["en"]) < 30
        assert gaps["ar"] == pytest.approx(gaps["en"], abs=1)


@pytest.mark.usefixtures("arabic")
@pytest.mark.parametrize(("language", "widths"), [("en", WIDTHS), ("ar", (390,))])
def test_no_page_is_wider_than_the_window(
    open_page: Open, everything: dict[str, str], language: str, widths: tuple[int, ...]
) -> None:
    page = open_page("/", locale=language)
    wide = {}
    for name, address in everything.items():
        resize(page, widths[0])
        page.goto(address)
        for width in widths:
            resize(page, width)
            if excess := max(overflow(page), page.evaluate(WIDEST_LIST)):
                wide[name, width] = excess
    assert wide == {}
