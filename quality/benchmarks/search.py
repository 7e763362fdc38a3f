"""Measures indexing and search over 100,000 checkpoints: time to the first results, and database growth."""

import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from quality.benchmarks.timing import timed_requests
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Location

RUNS, LENGTH = 500, int(os.environ.get("LENGTH", "200"))
REQUESTS = 7
GOAL_MILLISECONDS = 200
START = datetime(2026, 1, 1, tzinfo=UTC)
# The newest events that each generated checkpoint repeats.
REPEATED_EVENTS = 20
MESSAGE_WORDS, VOCABULARY = 60, 20_000
SEARCHES = {
    "a rare word": "q=w19999",
    "a word of nearly every text": "q=everywhere",
    "the beginning of words": "q=w19",
    "a phrase": "q=%22answer+everywhere%22",
    "a common word, one branch": "q=everywhere&branch=main",
    "a common word, an agent": "q=everywhere&agent=Writer",
    "a common word, a filter that excludes all": "q=everywhere&entity=flow",
    "no match": "q=nosuchword",
    "failed and never re-run": "unattended=1",
    "a day": "since=2026-01-02&until=2026-01-02",
}


def main() -> None:
    """Measure with a temporary data folder, and print both tables."""
    with temporary_data_folder():
        from viewer.models import Location

        location = Location.objects.create(path="/generated/search", store_kind=Location.StoreKind.JSON)
        for number in range(RUNS):
            store_run(location, number)
        report_indexing()
        report_searches(logged_in())


def store_run(location: "Location", number: int) -> None:
    """Store a run of consecutive checkpoints, each with the newest events of the run."""
    from viewer.models import Checkpoint, Run, StoredCopy
    from viewer.stores.protocol import compressed

    at = START + timedelta(minutes=number * LENGTH)
    run = Run.objects.create(
        location=location,
        key=f"run-{number}",
        entity="crew",
        name=f"generated {number}",
        last_at=at + timedelta(minutes=LENGTH),
        checkpoint_count=LENGTH,
    )
    rows = [
        Checkpoint(
            location=location,
            run=run,
            source_key=f"{number}/{row}.json",
            fingerprint="generated",
            checkpoint_id=f"{number:04}_{row:04}",
            branch="main" if row % 10 else "fork",
            trigger="task_failed" if row % 97 == 96 else "task_completed",
            created_at=at + timedelta(minutes=row),
            entity="crew",
            row=row,
            size=20_000,
        )
        for row in range(LENGTH)
    ]
    Checkpoint.objects.bulk_create(rows, batch_size=500)
    bodies = (
        StoredCopy(checkpoint=row, data=compressed(json.dumps(body).encode()))
        for row, body in zip(rows, bodies_of(number), strict=True)
    )
    StoredCopy.objects.bulk_create(bodies, batch_size=100)


def bodies_of(number: int) -> Iterator[dict[str, Any]]:
    """The checkpoints of a run as the engine writes them, with texts of generated words."""
    chance = random.Random(number)
    events = dict[str, Any]()
    for row in range(LENGTH):
        words = " ".join(f"w{chance.randrange(VOCABULARY)}" for _word in range(MESSAGE_WORDS))
        event = {
            "type": "llm_call_completed",
            "event_id": f"{number}-{row}",
            "agent_role": "Writer" if row % 5 else "Editor",
            "model": "gpt-4o-mini",
            "response": f"answer everywhere {words}",
        }
        events[f"{number}-{row}"] = {"event": event}
        if len(events) > REPEATED_EVENTS:
            del events[next(iter(events))]
        task = {"id": "t1", "description": f"Write about {number}", "expected_output": "An article"}
        crew = {"entity_type": "crew", "name": "generated", "tasks": [task]}
        yield {"entities": [crew], "event_record": {"nodes": dict(events)}}


def report_indexing() -> None:
    """Index everything, and print how long that took and how much the database grew."""
    from viewer.host.locations.search_index import index_some
    from viewer.models import SearchEntry

    before, began = megabytes(), time.perf_counter()
    longest = 0.0
    more = True
    while more:
        step = time.perf_counter()
        more = index_some(0.5)
        longest = max(longest, time.perf_counter() - step)
    seconds, after = time.perf_counter() - began, megabytes()
    counts = (f"{RUNS * LENGTH:,}", f"{SearchEntry.objects.count():,}")
    indexing = f"{seconds:.0f} s ({RUNS * LENGTH / seconds:,.0f} a second)"
    print_heading("checkpoints", "texts", "indexing", "longest step", "database before", "growth")
    print_row(*counts, indexing, f"{longest:.1f} s", f"{before:,.0f} MB", f"{after - before:,.0f} MB")
    print()


def megabytes() -> float:
    """The size of the database, after its log was written to it."""
    from django.db import connection

    from viewer import sqlite_pragmas

    with connection.cursor() as cursor:
        sqlite_pragmas.empty_log(cursor)
    return Path(connection.settings_dict["NAME"]).stat().st_size / 1e6


def report_searches(client: "Client") -> None:
    """Print the median and the slowest time of each search's first page."""
    print_heading("search", "first page, median", f"slowest of {REQUESTS}", "goal")
    for name, query in SEARCHES.items():
        taken = [one.passed * 1000 for one in timed_requests(client, f"/search/?{query}", REQUESTS)]
        times = f"{median(taken):.0f} ms", f"{max(taken):.0f} ms"
        print_row(name, *times, f"at most {GOAL_MILLISECONDS} ms")


if __name__ == "__main__":
    main()
