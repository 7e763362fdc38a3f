"""Measures from the click to the first task or node: prewarmed, cold, and CrewAI's own command.

python -m quality.benchmarks.prewarmed_start [ROUNDS]
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from dotenv import dotenv_values
from playwright.sync_api import Browser, Page, sync_playwright

from quality.tables import print_heading, print_row
from scripts.chromium import launch_options
from scripts.served_demo import ServedDemo, log_in_browser, served_demo

ROUNDS = 5
GOAL_TIMES = 6
MAX_SECONDS = 180
# Before each click, for the work that follows the last run and the preflight check to end.
PAUSE_SECONDS = 1.5
COMMAND = "`crewai checkpoint resume`, start to end"
CHECKPOINT = """
    SELECT checkpoint.id, checkpoint.checkpoint_id, location.path, project.folder, project.interpreter,
           project.environment_file
    FROM viewer_checkpoint AS checkpoint
    JOIN viewer_location AS location ON location.id = checkpoint.location_id
    JOIN viewer_project AS project ON project.id = location.project_id
    JOIN viewer_run AS run ON run.id = checkpoint.run_id
    WHERE checkpoint.branch = 'main' AND {condition} ORDER BY checkpoint.id LIMIT 1
"""
RUN = "SELECT uid FROM viewer_run AS run WHERE {condition}"
FIRST_UNIT = """
    SELECT (julianday(event.at) - 2440587.5) * 86400 FROM viewer_jobevent AS event
    JOIN viewer_job AS job ON job.id = event.job_id
    WHERE event.kind = ? AND job.created_at > ? ORDER BY event.id LIMIT 1
"""
UNFINISHED = "SELECT count(*) FROM viewer_job WHERE status IN ('queued', 'starting', 'running')"


@dataclass(frozen=True)
class Start:
    """What is started: its first unit, the event that reports it, the form, its run and its checkpoint."""

    unit: str
    event: str
    form: str
    run: str
    checkpoint: str


# The demo's crew after two of its four tasks, and its thread without questions before its first node.
CREW = Start(
    *("task", "task_started", "resume", "run.entity = 'crew'"),
    "location.store_kind = 'json' AND checkpoint.units_done = 2 AND checkpoint.trigger = 'task_completed'",
)
THREAD = Start(
    *("node", "node_started", "fork", "run.key = 'delivery-1002'"),
    "checkpoint.trigger = 'loop' AND checkpoint.step = 0",
)


@dataclass(frozen=True)
class ServedCheckpoint:
    """A served demo, a logged-in browser, and the checkpoint to start from."""

    start: Start
    demo: ServedDemo
    page: Page
    checkpoint: int
    identifier: str
    location: Path
    project: Path
    interpreter: Path
    environment_file: Path


def main() -> None:
    """Measure in turns, so that other load affects all alike, and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="forkline-bench-")))
        demos = {
            flag: open_things.enter_context(demo_with_prewarming(folder / f"warm-{flag}", flag))
            for flag in "01"
        }
        playwright = open_things.enter_context(sync_playwright())
        browser = playwright.chromium.launch(**launch_options())
        # A login link works once.
        pages = {flag: logged_in(demo, browser) for flag, demo in demos.items()}
        seconds: dict[str, list[float]] = {}
        for start in (CREW, THREAD):
            cold, warm = (open_checkpoint(start, demos[flag], pages[flag]) for flag in "01")
            wait_until_prewarmed(warm)
            names = [f"click to first {start.unit}, {how}" for how in ("cold", "prewarmed")]
            for number in range(rounds):
                for name, served in zip(names, (cold, warm), strict=True):
                    seconds.setdefault(name, []).append(click_to_first_unit(served))
                if start is CREW:
                    took, said, written = engine_resume(cold, folder / f"copy-{number}")
                    seconds.setdefault(COMMAND, []).append(took)
        browser.close()
    report(seconds, said, written)


def demo_with_prewarming(folder: Path, flag: str) -> Any:
    os.environ["PREWARM"] = flag
    return served_demo(folder, delay=0.01)


def rows(demo: ServedDemo, query: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(demo.data_folder / "forkline.sqlite3", timeout=30)) as database:
        return database.execute(query, values).fetchall()


def logged_in(demo: ServedDemo, browser: Browser) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(MAX_SECONDS * 1000)
    log_in_browser(page, demo.link)
    return page


def open_checkpoint(start: Start, demo: ServedDemo, page: Page) -> ServedCheckpoint:
    # The checkpoints of a thread are read when its page is opened.
    (uid,) = rows(demo, RUN.format(condition=start.run))[0]
    page.goto(f"{demo.site}/runs/{UUID(uid)}/")
    condition = f"{start.run} AND {start.checkpoint}"
    checkpoint, identifier, *paths = rows(demo, CHECKPOINT.format(condition=condition))[0]
    served = ServedCheckpoint(start, demo, page, checkpoint, identifier, *map(Path, paths))
    open_form(served)
    return served


def open_form(served: ServedCheckpoint) -> None:
    """Open the form, let the run call its tools unasked, and wait until the preflight check has finished."""
    served.page.goto(f"{served.demo.site}/checkpoints/{served.checkpoint}/{served.start.form}/")
    # An address that is typed starts no check.
    if (check := served.page.get_by_role("button", name="Run preflight check")).is_visible():
        check.click()
    served.page.wait_for_selector("#start-button:not([disabled])")
    for choice in served.page.locator("select[name^='tool:']").all():
        choice.select_option("call")
    served.page.wait_for_selector("#start-button:not([disabled])")


def wait_until_prewarmed(served: ServedCheckpoint) -> None:
    """Wait for the prewarmed process that opening the form has requested."""
    until = time.monotonic() + MAX_SECONDS
    while not any(
        "Waiting." in log.read_text() for log in (served.demo.data_folder / "prewarm").glob("*.log")
    ):
        assert time.monotonic() < until, "no process came to wait"
        time.sleep(0.1)


def click_to_first_unit(served: ServedCheckpoint) -> float:
    """Return the seconds from the click to the start of the first task or node, as the runner reports it."""
    open_form(served)
    time.sleep(PAUSE_SECONDS)
    clicked = time.time()
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(clicked - 1))
    served.page.click("#start-button")
    until = time.monotonic() + MAX_SECONDS
    while (
        not (found := rows(served.demo, FIRST_UNIT, served.start.event, since))
        or rows(served.demo, UNFINISHED)[0][0]
    ):
        assert time.monotonic() < until, "the run did not come to its end"
        time.sleep(0.1)
    return float(found[0][0]) - clicked


def engine_resume(served: ServedCheckpoint, copy: Path) -> tuple[float, str, int]:
    """Run ``crewai checkpoint resume`` on a copy of the same store.

    Return its seconds, its last line of output, and the number of checkpoints that it wrote.
    """
    shutil.copytree(served.location, copy)
    before = len(list(copy.rglob("*.json")))
    command = [served.interpreter.parent / "crewai", "checkpoint", "--location", copy, "resume"]
    began = time.monotonic()
    ended = subprocess.run(
        [*map(str, command), served.identifier],
        cwd=served.project,
        env={**os.environ, **{n: v for n, v in dotenv_values(served.environment_file).items() if v}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=MAX_SECONDS,
    )
    took = time.monotonic() - began
    lines = [line for line in ended.stdout.splitlines() if line.strip()]
    return took, lines[-1] if lines else "", len(list(copy.rglob("*.json"))) - before


def report(seconds: dict[str, list[float]], said: str, written: int) -> None:
    print_heading("start", "median s", "fastest s", "slowest s", "times as fast as cold", "goal")
    for name, measured in seconds.items():
        cold = seconds.get(name.replace("prewarmed", "cold"), [])
        times = f"{median(cold) / median(measured):.1f}" if name.endswith("prewarmed") else ""
        goal = f"{GOAL_TIMES} times" if name == "click to first task, prewarmed" else ""
        shown = [f"{value:.2f}" for value in (median(measured), min(measured), max(measured))]
        print_row(name, *shown, times, goal)
    print(f"\nThe command ends with {said[:100]!r}, and wrote {written} checkpoints.")


if __name__ == "__main__":
    main()
