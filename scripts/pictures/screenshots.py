"""``make screenshots``: takes the README's pictures of the demo while it forks."""

import os
import tempfile
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from scripts.chromium import launch_options
from scripts.pictures.guide import take_guide
from scripts.pictures.outdated import SOURCES, record_sources
from scripts.pictures.taking import edit, log_in_everywhere, start_fork, take
from scripts.served_demo import ServedDemo, served_demo, set_up_django


def main() -> None:
    """Take the pictures."""
    # Screenshots must not show details of this machine.
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    with (
        tempfile.TemporaryDirectory(prefix="forkline-") as folder,
        # Slow answers leave time to take a picture of a running job.
        served_demo(Path(folder), delay=0.2) as demo,
    ):
        print(demo.printed)
        take_all(demo, **addresses(demo))


def addresses(demo: ServedDemo) -> dict[str, str]:
    """Return the addresses of the pictured pages, by the names of the pictures."""
    set_up_django(demo)
    from django.urls import reverse

    from viewer.models import Checkpoint, Run

    found = Checkpoint.objects.filter(trigger="task_completed", location__path__endswith="/article")
    selected = found.get(branch="shorter-draft", units_done=4)
    start = found.get(branch="main", units_done=3)
    waiting = Run.objects.top_level().filter(status=Run.Status.WAITING).latest("last_at")
    return {
        "question": reverse("run-jump", args=[waiting.uid], query={"to": "waiting"}),
        "search": reverse("search", query={"q": "checkpoints"}),
        "share": reverse("share", query={"kind": "run", "target": str(start.run.uid)}),
        "run": f"{selected.get_absolute_url()}&tab=tasks",
        "fork": reverse("fork", args=[start.pk]),
        "vary": reverse("new-sweep", args=[start.pk]),
        "timeline": reverse("run-timeline", args=[start.run.uid], query={"branch": "main"}),
    }


def take_all(demo: ServedDemo, run: str, fork: str, vary: str, **shown: str) -> None:
    """Take every picture, in every size and both themes. ``shown`` are pages that are only opened."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(**launch_options())
        pages = log_in_everywhere(chromium, demo.link)
        take(pages, "locations", lambda page: show(page, f"{demo.site}/"))
        take(pages, "run", lambda page: show(page, demo.site + run))
        for name, address in shown.items():
            take(pages, name, partial(show, address=demo.site + address))
        take(pages, "fork", lambda page: edit_fork(page, demo.site + fork))
        started = start_fork(next(iter(pages.values())))
        for page in pages.values():
            page.goto(started)
        for page in pages.values():
            # The model's output streams in.
            page.locator(".job-text bdi").first.wait_for(timeout=60_000)
        take(pages, "running", lambda page: None)
        group = start_variations(pages["light"], demo.site + vary)
        take(pages, "variations", lambda page: show_variations(page, group))
        take_guide(pages, demo)
        chromium.close()
    record_sources(SOURCES.keys() - {"stops"})


def show(page: Page, address: str) -> None:
    """Open a page."""
    page.goto(address)


def edit_fork(page: Page, address: str) -> None:
    """Fill in the fork form with another year and draft, and wait for the plan."""
    page.goto(address)
    edit(page, page.get_by_label("year", exact=True), "2030")
    draft = page.get_by_label("New output of: Draft the article")
    page.locator("details", has=draft).locator("summary").click()
    edit(page, draft, f"{draft.input_value()}\n\nThis line was written by hand.")
    edit(page, page.get_by_label("Branch", exact=True), "by-hand")
    page.evaluate("scrollTo(0, 0)")


def start_variations(page: Page, address: str) -> str:
    """Start a sweep over three years. Return the URL of its page."""
    page.goto(address)
    page.get_by_label("year", exact=True).fill("2027\n2028\n2029")
    page.get_by_label("Branch prefix", exact=True).fill("years")
    page.get_by_role("button", name="Start 3 forks").click(timeout=120_000)
    page.wait_for_url("**/sweeps/*-*/")
    return page.url


def show_variations(page: Page, group: str) -> None:
    """Open the page of a sweep and wait until three variations have succeeded."""
    page.goto(group)
    page.locator(".status-succeeded").nth(2).wait_for(timeout=180_000)


if __name__ == "__main__":
    main()
