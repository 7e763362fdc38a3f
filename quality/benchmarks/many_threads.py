"""Measures a LangGraph database of 1,000,000 checkpoints in 20,000 threads, and one of 5,000 super-steps.

python -m quality.benchmarks.many_threads [THREADS [CHECKPOINTS_A_THREAD]]
"""

import json
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from quality.benchmarks.timing import start_readers, timed
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder
from tests.langgraph.databases import TABLES, packed

if TYPE_CHECKING:
    from django.test import Client

THREADS, STEPS = 20_000, 50
LONG_THREAD, LONG_STEPS = "long", 5_000
GOAL_FIRST_PAGE = 1.0
ROUNDS = 3
# UUIDs of version 6 count tenths of microseconds; one checkpoint a millisecond.
FIRST_TICK, TICKS = 0x1F1E53D49830000, 10_000


def main() -> None:
    """Generate a database, measure, and print the table."""
    threads, steps = [*map(int, sys.argv[1:]), THREADS, STEPS][:2]
    with temporary_data_folder() as folder:
        database = folder / "threads.db"
        generate(database, threads, steps)
        print(f"{threads * steps + LONG_STEPS:,} checkpoints, {database.stat().st_size / 2**20:,.0f} MB")
        measure(database)


def generate(path: Path, threads: int, steps: int) -> None:
    """Write a database as LangGraph does, the threads interleaved as on a busy server."""
    database = sqlite3.connect(path)
    database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {TABLES}")
    with database:
        database.executemany(
            "INSERT INTO checkpoints VALUES (?, '', ?, ?, 'msgpack', ?, ?)", _rows(threads, steps)
        )
        database.executemany(
            "INSERT INTO writes VALUES (?, '', ?, ?, '~__pregel_pull, node', ?, 'value', 'msgpack', ?)",
            _writes(threads, steps),
        )
    database.close()


def checkpoint_id(number: int, step: int) -> str:
    """The id of the checkpoint that was written as the ``number``-th of all, at this step."""
    ticks = f"{FIRST_TICK + number * TICKS:015x}"
    return f"{ticks[:8]}-{ticks[8:12]}-6{ticks[12:]}-{0x8000 | step & 0x3FFF:04x}-{number:012x}"


def _ids(threads: int, steps: int) -> Iterator[tuple[str, int, str, str | None]]:
    """The thread, step, id and parent of each checkpoint."""
    for step in range(steps):
        for thread in range(threads):
            number = step * threads + thread
            before = checkpoint_id(number - threads, step - 2) if step else None
            yield f"thread-{thread:06d}", step - 1, checkpoint_id(number, step - 1), before
    first = threads * steps
    for step in range(LONG_STEPS):
        before = checkpoint_id(first + step - 1, step - 2) if step else None
        yield LONG_THREAD, step - 1, checkpoint_id(first + step, step - 1), before


def _rows(threads: int, steps: int) -> Iterator[tuple[Any, ...]]:
    text = "A conversation about an order that is late. " * 20
    for thread, step, own_id, parent_id in _ids(threads, steps):
        version = f"{step + 2:032d}.0.5"
        body = packed(
            {"value": step, "text": text},
            ts="2026-11-20T23:51:21+00:00",
            id=own_id,
            channel_versions={"value": version, "text": version},
            versions_seen={"__input__": {}, "node": {"branch:to:node": version}},
        )
        source = "input" if step < 0 else "loop"
        metadata = json.dumps({"source": source, "step": step, "parents": {}})
        yield thread, own_id, parent_id, body, metadata.encode()


def _writes(threads: int, steps: int) -> Iterator[tuple[Any, ...]]:
    """A write of each step, and an interrupt at the end of every tenth thread."""
    for thread, step, own_id, _parent_id in _ids(threads, steps):
        is_last = step == steps - 2 and thread != LONG_THREAD
        if is_last and thread.endswith("0"):
            yield thread, own_id, str(uuid.UUID(int=step + 2)), -3, b"\xc0"
        elif not is_last:
            yield thread, own_id, str(uuid.UUID(int=step + 2)), 0, b"\x01"


def add_and_show(database: Path, client: "Client") -> None:
    """Add a database as a location, import its newest threads, and request its page."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

    location = open_location(database)
    import_location(location)
    assert client.get(location.get_absolute_url()).status_code == 200


def measure(database: Path) -> None:
    """Print how long the first page, a page of a thread, and later imports take."""
    from viewer.host.locations.importing import import_location
    from viewer.models import Location, Run

    client = logged_in()
    start_readers(client)
    print()
    print_heading("", "seconds", "goal")
    report(
        "add the database and show its first page",
        lambda: add_and_show(database, client),
        goal=f"{GOAL_FIRST_PAGE:g}",
    )
    location = Location.objects.get()
    report("import again while statuses are read", lambda: import_location(location), ROUNDS)
    long, short = (Run.objects.get(key=key).get_absolute_url() for key in (LONG_THREAD, "thread-000100"))
    report(f"open a thread of {LONG_STEPS:,} super-steps", lambda: client.get(long))
    report("open it again", lambda: client.get(long), ROUNDS)
    report("open a thread of 50 super-steps", lambda: client.get(short))
    while import_location(location).is_news:
        pass
    report("import, nothing has changed", lambda: import_location(location), ROUNDS)
    print(f"\nwaiting: {Run.objects.filter(status='waiting').count():,} of {Run.objects.count():,} threads")


def report(what: str, work: Callable[[], object], rounds: int = 1, goal: str = "") -> None:
    """Print the median of the seconds that a call takes."""
    print_row(what, f"{median(timed(work).passed for _round in range(rounds)):.2f}", goal)


if __name__ == "__main__":
    main()
