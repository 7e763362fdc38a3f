"""Measures the time from the write of a checkpoint to its row on a run page in a real browser."""

import json
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

from quality.served import Served, logged_in_page, served
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT

CHECKPOINTS = 30
GOAL_SECONDS = 2
# A real checkpoint of 35 KB.
FIRST = next(ROOT.glob("tests/recorded_stores/1.15.30/json/main/*_p-none.json"))
# Milliseconds since the epoch at which the page shows this many rows.
SHOWN = "(count) => document.querySelectorAll('#lineage .row').length >= count && Date.now()"


def main() -> None:
    # Not in the data folder, which is not read as a location.
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder, served() as dashboard:
        report(measure(dashboard, Path(folder) / "checkpoints"))


def measure(dashboard: Served, location: Path) -> list[float]:
    """Return the seconds from write to row, for each checkpoint written while the page was open."""
    names = checkpoint_names()
    write(location, names[0], None)
    with logged_in_page(dashboard.link) as page:
        page.goto(dashboard.site + address_of_run(location))
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
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

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
    print_heading("checkpoints", "median s", "slowest s", "goal")
    print_row(len(seconds), f"{median(seconds):.2f}", f"{max(seconds):.2f}", f"within {GOAL_SECONDS} s")


if __name__ == "__main__":
    main()
