"""Measures the time from the write of a checkpoint to its row on a run page in a real browser."""

import json
import os
import random
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from playwright.sync_api import Page, sync_playwright

from quality.benchmarks.live_latency import served

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = 30
GOAL_SECONDS = 2
# A real checkpoint of 35 KB.
FIRST = next(ROOT.glob("tests/recorded_stores/1.15.30/json/main/*_p-none.json"))
# Milliseconds since the epoch at which the page shows this many rows.
SHOWN = "(count) => document.querySelectorAll('#lineage .row').length >= count && Date.now()"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder, served(folder) as link:
        report(measure(link, Path(folder) / "checkpoints"))


def measure(link: str, location: Path) -> list[float]:
    """Return the seconds from write to row, for each checkpoint written while the page was open."""
    executable = shutil.which("chromium")
    assert executable, "chromium is not there: run `scripts/system-packages browser`"
    # Playwright runs an event loop in this thread, which Django would refuse to block.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    names = checkpoint_names()
    write(location, names[0], None)
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"]).new_page()
        page.goto(link)
        page.goto(link.split("/login", maxsplit=1)[0] + address_of_run(location))
        page.wait_for_function(SHOWN, arg=1)
        return [seconds_until_shown(page, location, names, count) for count in range(1, len(names))]


def checkpoint_names() -> list[str]:
    """Yield ids in CrewAI's format, one per second."""
    began = datetime(2026, 11, 20, 9, 13, tzinfo=UTC)
    times = (began + timedelta(seconds=count) for count in range(CHECKPOINTS + 1))
    return [f"{at:%Y%m%dT%H%M%S}_{count:08x}" for count, at in enumerate(times)]


def write(location: Path, name: str, parent: str | None) -> None:
    branch = location / "main"
    branch.mkdir(parents=True, exist_ok=True)
    body = FIRST.read_text().replace('"parent_id": null', f'"parent_id": {json.dumps(parent)}', 1)
    (branch / f"{name}_p-{parent or 'none'}.json").write_text(body)


def address_of_run(folder: Path) -> str:
    """Return the URL of the only run."""
    import django

    django.setup()
    from viewer.importing import import_location, open_location

    location = open_location(folder)
    import_location(location)
    return location.runs.get().get_absolute_url()


def seconds_until_shown(page: Page, location: Path, names: list[str], count: int) -> float:
    # At a random moment between two polls of the folder.
    time.sleep(random.uniform(0.2, 1.2))
    write(location, names[count], names[count - 1])
    written = time.time()
    shown: float = page.wait_for_function(SHOWN, arg=count + 1).json_value()
    return shown / 1000 - written


def report(seconds: list[float]) -> None:
    print("| checkpoints | median s | slowest s | goal |")
    print("|---:|---:|---:|---:|")
    print(f"| {len(seconds)} | {median(seconds):.2f} | {max(seconds):.2f} | within {GOAL_SECONDS} s |")


if __name__ == "__main__":
    main()
