"""Rows that arrive over the socket are the rows that the server renders."""

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page

from viewer.models import Job, JobEvent, Run

pytestmark = pytest.mark.browser
SCRIPT = "<img src=x onerror='window.hit = true'>&amp; <b>bold</b>"
EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("started", {"engine": "crewai", "engine_version": "1.15.3"}),
    ("task_started", {"task": "a", "description": SCRIPT, "agent": SCRIPT}),
    ("tool_started", {"tool": SCRIPT, "agent": "Writer", "arguments": SCRIPT * 10}),
    ("tool_failed", {"tool": "search", "error": "short"}),
    ("model_completed", {"model": "gpt", "agent": "Writer", "tokens": 1, "total_tokens": 1}),
    ("model_completed", {"model": "gpt", "tokens": 1200, "total_tokens": 1201}),
    ("text", {"text": f"first {SCRIPT}", "agent": SCRIPT}),
    ("text", {"text": f" second {SCRIPT}", "agent": SCRIPT}),
    ("checkpoint", {"id": "a/b?c=<d>&e"}),
    (f"kind {SCRIPT}"[:40], {}),
    ("warning", {"message": {"code": "runner.project_folder_failed", "values": {"error": SCRIPT}}}),
)
# What a row shows, without white space, of which the template has more.
ROWS = """() => [...document.querySelectorAll(".job-event")].map((row) => {
  const words = (element) => element?.textContent.replace(/\\s+/g, "") ?? null;
  const time = row.querySelector("time");
  return {
    classes: row.className, event: row.dataset.event,
    time: [time.dateTime, time.className, time.dataset.time, words(time)],
    sign: row.querySelector(".job-event-sign").getAttribute("aria-hidden"),
    label: words(row.querySelector(".job-event-label")),
    parts: [...row.querySelectorAll(".job-event-label *")].map(
      (one) => [one.localName, one.className, one.id, words(one)],
    ),
    link: row.querySelector("a")?.getAttribute("href") ?? null,
    figures: words(row.querySelector(".job-event-agent")),
  };
})"""


def add(job: Job, first: int, last: int) -> None:
    JobEvent.objects.bulk_create(
        JobEvent(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)
        for seq, (kind, data) in enumerate(EVENTS, 1)
        if first <= seq <= last
    )


def test_rows_that_arrive_are_the_rows_of_a_reloaded_page(page: Page, job: Job) -> None:
    job.run = Run.objects.create(location=job.location, key="kickoff", entity="crew", name="article")
    job.save(update_fields=["run"])
    page.goto(job.get_absolute_url())
    # The last streamed text is appended to a row that is already there.
    for first, last in ((1, 7), (8, len(EVENTS))):
        add(job, first, last)
        page.wait_for_selector(f'[data-seq="{last}"]', state="attached")
    arrived = page.evaluate(ROWS)
    assert [row["event"] for row in arrived] == [str(seq) for seq in range(1, len(EVENTS) + 1) if seq != 8]
    assert page.locator(".job-events img").count() == 0
    assert page.evaluate("window.hit") is None
    page.reload()
    for row, reloaded in zip(arrived, page.evaluate(ROWS), strict=True):
        assert row == reloaded


def test_streamed_text_of_the_progress_bar_is_shown_as_text(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    for seq in (1, 2):
        JobEvent.objects.create(
            job=job,
            seq=seq,
            kind="text",
            at=timezone.now(),
            data={"text": f"{seq} {SCRIPT} ", "agent": "Writer"},
        )
        page.wait_for_selector(f'[data-seq="{seq}"]', state="attached")
    streamed = page.locator(".job-streamed")
    assert " ".join(streamed.inner_text().split()) == " ".join(f"1 {SCRIPT} 2 {SCRIPT}".split())
    assert page.locator(".job-progress img").count() == 0
