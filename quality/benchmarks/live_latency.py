"""Measures the time from a runner's write of an event to its appearance in a real browser."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from playwright.sync_api import Page, sync_playwright

from scripts.served_demo import LINK, free_port

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 600
GOAL_MILLISECONDS = 250

# Records when each row appears, in seconds since the epoch.
OBSERVE = """
window.appeared = {};
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const note = (row) => { window.appeared[row.dataset.event] = now(); };
document.addEventListener("DOMContentLoaded", () => {
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) if (node.dataset?.event) note(node);
  }).observe(document.body, { childList: true, subtree: true });
});
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder, served(folder) as link:
        report(measure(link))


@contextmanager
def served(folder: str) -> Iterator[str]:
    """Serve the dashboard on this data folder with jobs that only write events. Yield a login link."""
    os.environ |= {
        "DATA_DIR": folder,
        "PORT": str(free_port()),
        "DJANGO_SETTINGS_MODULE": "quality.benchmarks.live.settings",
    }
    server = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield login_address(server)
    finally:
        server.terminate()
        server.communicate()


def login_address(server: "subprocess.Popen[str]") -> str:
    assert server.stdout
    for line in server.stdout:
        if link := LINK.search(line):
            return link[0]
    raise RuntimeError("The server ended before it answered.")


def measure(link: str) -> list[float]:
    """Return the seconds from write to appearance, for each event sent to the open page."""
    executable = shutil.which("chromium")
    assert executable, "chromium is not there: run `scripts/system-packages browser`"
    # Playwright runs an event loop in this thread, which Django would refuse to block.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_init_script(OBSERVE)
        page.goto(link)
        job = queued_job()
        page.goto(link.split("/login", maxsplit=1)[0] + job.get_absolute_url())
        return latencies(page, job)


def queued_job(events: int = EVENTS) -> Any:
    """Return a queued job. It starts once its page is open."""
    import django

    django.setup()
    from django.utils import timezone

    from viewer.models import Job, Location, Project

    # Outside the data folder: the import guard protects everything inside.
    project_parent = Path(tempfile.mkdtemp(prefix="forkline-bench-project-"))
    atexit.register(shutil.rmtree, project_parent, ignore_errors=True)
    for name in ("project", "checkpoints"):
        (project_parent / name).mkdir()
    project = Project.objects.create(
        folder=str(project_parent / "project"), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    location = Location.objects.create(
        path=str(project_parent / "checkpoints"), store_kind="json", project=project
    )
    return Job.objects.create(
        kind="fork",
        location=location,
        project=project,
        branch="what-if",
        request={"inputs": {"events": events}},
    )


def latencies(page: Page, job: Any) -> list[float]:
    from viewer.jobs.queue.scheduling import enqueue

    enqueue(job)
    while not job.has_ended:
        page.wait_for_timeout(200)
        job.refresh_from_db()
    page.wait_for_selector(".job-outcome .button, .is-succeeded")
    page.wait_for_function("(last) => window.appeared[last]", arg=str(EVENTS))
    appeared: dict[str, float] = page.evaluate("window.appeared")
    written = {str(seq): at.timestamp() for seq, at in job.events.values_list("seq", "at")}
    # The first events may be part of the page when it loads.
    shown = sorted(appeared, key=int)[20:]
    assert len(shown) > EVENTS * 0.8, "too few events were seen live"
    return [appeared[seq] - written[seq] for seq in shown]


def report(seconds: list[float]) -> None:
    cuts = [cut * 1000 for cut in quantiles(seconds, n=100)]
    p50, p95, p99 = cuts[49], cuts[94], cuts[98]
    print("| events | p50 ms | p95 ms | p99 ms | slowest ms | goal for p95 |")
    print("|---|---|---|---|---|---|")
    worst = max(seconds) * 1000
    print(
        f"| {len(seconds)} | {p50:.0f} | {p95:.0f} | {p99:.0f} | {worst:.0f} | under {GOAL_MILLISECONDS} ms |"
    )


if __name__ == "__main__":
    main()
