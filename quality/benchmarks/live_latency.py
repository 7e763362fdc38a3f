"""Measures the time from a runner's write of an event to its appearance in a real browser."""

import atexit
import shutil
import tempfile
from pathlib import Path
from statistics import quantiles
from typing import Any

from playwright.sync_api import Page

from quality.served import Served, logged_in_page, served
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import made_location

EVENTS = 600
GOAL_MILLISECONDS = 250

# Records when each row appears, in seconds since the epoch, and whether the page's socket is open.
OBSERVE = """
window.appeared = {};
document.addEventListener("htmx:wsOpen", () => { window.isConnected = true; });
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const note = (row) => { window.appeared[row.dataset.event] = now(); };
document.addEventListener("DOMContentLoaded", () => {
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) if (node.dataset?.event) note(node);
  }).observe(document.body, { childList: true, subtree: true });
});
"""


def main() -> None:
    with served() as dashboard:
        report(measure(dashboard))


def measure(dashboard: Served) -> list[float]:
    """Return the seconds from write to appearance, for each event sent to the open page."""
    with logged_in_page(dashboard.link) as page:
        page.add_init_script(OBSERVE)
        job = queued_job()
        page.goto(dashboard.site + job.get_absolute_url())
        page.wait_for_function("() => window.isConnected")
        return latencies(page, job)


def queued_job(events: int = EVENTS) -> Any:
    """Return a queued job. It starts once its page is open."""
    from viewer.models import Job

    # Outside the data folder: the import guard protects everything inside.
    folder = Path(tempfile.mkdtemp(prefix="forkline-bench-project-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    location = made_location(folder)
    return Job.objects.create(
        kind="fork",
        location=location,
        project=location.project,
        branch="what-if",
        request={"inputs": {"events": events}},
    )


def latencies(page: Page, job: Any) -> list[float]:
    from viewer.records.hosts import enqueue

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
    shown = [f"{one:.0f}" for one in (cuts[49], cuts[94], cuts[98], max(seconds) * 1000)]
    print_heading("events", "p50 ms", "p95 ms", "p99 ms", "slowest ms", "goal for p95")
    print_row(len(seconds), *shown, f"under {GOAL_MILLISECONDS} ms")


if __name__ == "__main__":
    main()
