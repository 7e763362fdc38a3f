"""``make screens``: takes every screen of the demo at three widths, light and dark, into ``screens``.

They are for looking at, and are not committed. With a folder as argument, the demo that was prepared there is
served instead of a new one.
"""

import os
import shutil
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import django
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from scripts.served_demo import ServedDemo, served_demo, started_demo

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "screens"
SIZES: dict[str, ViewportSize] = {
    "wide": {"width": 1440, "height": 900},
    "medium": {"width": 820, "height": 1000},
    "phone": {"width": 390, "height": 844},
}
# A page that refreshes is never idle: so long, what it fetches at first may take.
SETTLE_MILLISECONDS = 800


def main() -> None:
    """Take every screen."""
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="forkline-") as folder, _demo(Path(folder)) as demo:
        addresses = screens(demo)
        FOLDER.mkdir(exist_ok=True)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            take_all(chromium, demo, addresses)
            chromium.close()
    print(f"{len(addresses)} screens are in {FOLDER}.")


def _demo(folder: Path) -> AbstractContextManager[ServedDemo]:
    return started_demo(Path(sys.argv[1])) if len(sys.argv) > 1 else served_demo(folder)


def screens(demo: ServedDemo) -> dict[str, str]:
    """Return the address of each screen by its name."""
    os.environ["DATA_DIR"] = str(demo.data_folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "checkpoint_site.settings"
    django.setup()
    from django.urls import reverse

    from viewer.models import Checkpoint, Job

    article = Checkpoint.objects.filter(location__path__endswith="/article", trigger="task_completed")
    forked = article.select_related("run__location").get(branch="shorter-draft", units_done=4)
    start = article.get(branch="main", units_done=3)
    thread = Checkpoint.objects.filter(location__engine="langgraph").order_by("-run__branch_count", "-row")[0]
    run, job = forked.run.get_absolute_url(), Job.objects.order_by("created_at")[0]
    branches = [f"{forked.run.uid}/{one.checkpoint_id}" for one in (start, forked)]
    return {
        "home": reverse("home"),
        "locations": reverse("locations"),
        "location": forked.location.get_absolute_url(),
        "run": f"{run}?at={forked.checkpoint_id}&tab=tasks",
        "graph": f"{run}?view=graph",
        "timeline": reverse("run-timeline", args=[forked.run.uid], query={"branch": "main"}),
        "checkpoint": forked.get_absolute_url(),
        "checkpoint-json": f"{forked.get_absolute_url()}&tab=raw",
        "thread": thread.get_absolute_url(),
        "thread-graph": f"{thread.run.get_absolute_url()}?view=graph",
        "thread-messages": f"{thread.get_absolute_url()}&tab=messages",
        "compare": reverse("compare", query={"a": branches[0], "b": branches[1]}),
        "search": reverse("search", query={"q": "fork"}),
        "jobs": reverse("jobs"),
        "job": job.get_absolute_url(),
        "job-timeline": reverse("job-timeline", args=[job.pk]),
        "inbox": reverse("inbox"),
        "fork": reverse("fork", args=[start.pk]),
        "fork-thread": reverse("fork", args=[thread.pk]),
        "new-run": reverse("new-run", args=[forked.location.uid]),
        "sweep": reverse("new-sweep", args=[start.pk]),
        "project": reverse("project", args=[forked.location.uid]),
        "prune": reverse("prune", args=[forked.location.uid]),
        "note": reverse("annotation", args=[forked.run.uid]),
        "stored-data": reverse("stored-data"),
        "settings": reverse("settings"),
        "shares": reverse("shares"),
    }


def take_all(chromium: Browser, demo: ServedDemo, addresses: dict[str, str]) -> None:
    """Take each screen in each size and theme. Print what is wider than its window."""
    first = chromium.new_context()
    first.new_page().goto(demo.link)
    cookies = first.storage_state()
    for size, viewport in SIZES.items():
        page = chromium.new_context(storage_state=cookies, viewport=viewport).new_page()
        for name, address in addresses.items():
            answer = page.goto(demo.site + address)
            page.wait_for_timeout(SETTLE_MILLISECONDS)
            if answer and answer.status != 200:
                print(f"{name}: {answer.status}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                print(f"{name} is wider than {viewport['width']} px.")
            take(page, f"{name}-{size}")


def take(page: Page, name: str) -> None:
    """Take the page in both themes."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.screenshot(path=FOLDER / f"{name}-{theme}.png")


if __name__ == "__main__":
    main()
