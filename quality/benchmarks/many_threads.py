"""Measures a LangGraph database of 1,000,000 checkpoints in 20,000 threads, and one of 5,000 super-steps.

python -m quality.benchmarks.many_threads [THREADS [CHECKPOINTS_A_THREAD]]
"""

import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import ormsgpack

from quality.temporary_data_folder import own_data

THREADS, STEPS = 20_000, 50
LONG_THREAD, LONG_STEPS = "long", 5_000
GOAL_FIRST_PAGE = 1.0
ROUNDS = 3
# The time in which a person types a path.
SECONDS_TO_START = 4
# As ``SqliteSaver.setup`` creates them.
TABLES = """
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
    CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
# UUIDs of version 6 count tenths of microseconds; one checkpoint a millisecond.
FIRST_TICK, TICKS = 0x1F1E53D49830000, 10_000


def main() -> None:
    """Generate a database, measure, and print the table."""
    threads, steps = [*map(int, sys.argv[1:]), THREADS, STEPS][:2]
    with own_data() as folder:
        database = folder / "threads.db"
        generate(database, threads, steps)
        print(f"{threads * steps + LONG_STEPS:,} checkpoints, {database.stat().st_size / 2**20:,.0f} MB")
        measure(database)


def generate(path: Path, threads: int, steps: int) -> None:
    """Write a database as LangGraph does, the threads interleaved as on a busy server."""
    database = sqlite3.connect(path)
    database.executescript(TABLES)
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
        body = {
            "v": 4,
            "ts": "2026-11-20T23:51:21+00:00",
            "id": own_id,
            "channel_values": {"value": step, "text": text},
            "channel_versions": {"value": version, "text": version},
            "versions_seen": {"__input__": {}, "node": {"branch:to:node": version}},
        }
        source = "input" if step < 0 else "loop"
        metadata = json.dumps({"source": source, "step": step, "parents": {}})
        yield thread, own_id, parent_id, ormsgpack.packb(body), metadata.encode()


def _writes(threads: int, steps: int) -> Iterator[tuple[Any, ...]]:
    """A write of each step, and an interrupt at the end of every tenth thread."""
    for thread, step, own_id, _parent_id in _ids(threads, steps):
        is_last = step == steps - 2 and thread != LONG_THREAD
        if is_last and thread.endswith("0"):
            yield thread, own_id, str(uuid.UUID(int=step + 2)), -3, b"\xc0"
        elif not is_last:
            yield thread, own_id, str(uuid.UUID(int=step + 2)), 0, b"\x01"


def measure(database: Path) -> None:
    """Print how long the first page, a page of a thread, and later imports take."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from viewer.importing import import_location, open_location
    from viewer.models import Location, Run

    client = Client(headers={"host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    client.force_login(User.objects.create_superuser("bench"))
    # The page with the form that adds a location starts the reader processes.
    client.get("/")
    time.sleep(SECONDS_TO_START)

    def first_page() -> None:
        location = open_location(database)
        import_location(location)
        assert client.get(location.get_absolute_url()).status_code == 200

    print("\n| | seconds | goal |\n|---|---:|---:|")
    _print("add the database and show its first page", [_timed(first_page)], f"{GOAL_FIRST_PAGE:g}")
    location = Location.objects.get()
    pending = [_timed(lambda: import_location(location)) for _round in range(ROUNDS)]
    _print("import again while statuses are read", pending)
    run = Run.objects.get(key=LONG_THREAD)
    _print(
        f"open a thread of {LONG_STEPS:,} super-steps", [_timed(lambda: client.get(run.get_absolute_url()))]
    )
    again = [_timed(lambda: client.get(run.get_absolute_url())) for _round in range(ROUNDS)]
    _print("open it again", again)
    short = Run.objects.get(key="thread-000100")
    _print("open a thread of 50 super-steps", [_timed(lambda: client.get(short.get_absolute_url()))])
    while Run.objects.exclude(described_head=_head()).exists():
        import_location(location)
    _print("import, nothing has changed", [_timed(lambda: import_location(location)) for _ in range(ROUNDS)])
    print(f"\nwaiting: {Run.objects.filter(status='waiting').count():,} of {Run.objects.count():,} threads")


def _head() -> Any:
    from django.db.models import F

    return F("head")


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _print(what: str, seconds: list[float], goal: str = "") -> None:
    print(f"| {what} | {median(seconds):.2f} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
