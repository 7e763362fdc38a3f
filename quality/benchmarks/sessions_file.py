"""Measures a sessions file as Deep Agents writes it: 12 GB, 200,000 checkpoints in 1,500 threads.

python -m quality.benchmarks.sessions_file [THREADS [CHECKPOINTS_A_THREAD [BYTES_A_CHECKPOINT]]]
"""

import json
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from quality.benchmarks.many_threads import add_and_show, checkpoint_id
from quality.benchmarks.timing import start_readers, timed
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder
from tests.langgraph.databases import TABLES, extension, packed

THREADS, STEPS, BYTES = 1_500, 133, 60_000
GOAL_FIRST_ROWS, GOAL_LIST, GOAL_THREAD = 0.5, 2, 0.3
ROUNDS = 5
PATH = "~__pregel_pull, model"
# What a message has besides its text.
ENVELOPE = 185


def main() -> None:
    """Generate a file, measure, and print the table."""
    threads, steps, size = [*map(int, sys.argv[1:]), *(THREADS, STEPS, BYTES)[len(sys.argv) - 1 :]]
    with temporary_data_folder() as folder:
        database = folder / "sessions.db"
        generate(database, threads, steps, size)
        print(f"{threads * steps:,} checkpoints, {database.stat().st_size / 10**9:,.1f} GB")
        measure(database, threads)


def generate(path: Path, threads: int, steps: int, size: int) -> None:
    """Write threads whose conversations grow. A checkpoint has ``size`` bytes on average."""
    database = sqlite3.connect(path)
    database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {TABLES}")
    with database:
        for thread in range(threads):
            database.executemany(
                "INSERT INTO checkpoints VALUES (?, '', ?, ?, 'msgpack', ?, ?)", _rows(thread, steps, size)
            )
            database.executemany(
                "INSERT INTO writes VALUES (?, '', ?, ?, ?, 0, 'messages', 'msgpack', ?)",
                _writes(thread, steps),
            )
    database.close()


def _rows(thread: int, steps: int, size: int) -> Iterator[tuple[Any, ...]]:
    text = ("The test still fails. " * size)[: max(0, 2 * size // steps - ENVELOPE)]
    messages: list[Any] = []
    for step in range(steps):
        own_id = checkpoint_id(thread * steps + step, step - 1)
        before = checkpoint_id(thread * steps + step - 1, step - 2) if step else None
        messages.append(_message(step, text))
        version = f"{step + 2:032d}.0.5"
        body = packed(
            {"messages": messages},
            ts="2026-11-20T23:51:21+00:00",
            id=own_id,
            channel_versions={"messages": version},
            versions_seen={"__input__": {}, "model": {"branch:to:model": version}},
        )
        metadata: dict[str, Any] = {
            "source": "loop" if step else "input",
            "step": step - 1,
            "parents": {},
            "agent_name": "agent",
            "cwd": f"/srv/project-{thread % 20}",
        }
        yield f"{thread:08x}", own_id, before, body, json.dumps(metadata).encode()


def _message(step: int, text: str) -> Any:
    """A message of the person, or an answer with its usage."""
    kind, name = ("ai", "AIMessage") if step % 2 else ("human", "HumanMessage")
    fields: dict[str, Any] = {"content": f"{step} {text}", "type": kind, "id": str(uuid.UUID(int=step + 1))}
    if step % 2:
        tokens = {"input_tokens": 900 + step, "output_tokens": 80, "total_tokens": 980 + step}
        fields |= {"usage_metadata": tokens, "response_metadata": {"model_name": "small-model"}}
    return extension(5, f"langchain_core.messages.{kind}", name, fields, "model_validate_json")


def _writes(thread: int, steps: int) -> Iterator[tuple[Any, ...]]:
    for step in range(steps - 1):
        own_id = checkpoint_id(thread * steps + step, step - 1)
        yield f"{thread:08x}", own_id, str(uuid.uuid5(uuid.NAMESPACE_OID, own_id)), PATH, b"\x01"


def measure(database: Path, threads: int) -> None:
    """Print how long the first rows, the whole list and a thread take."""
    from viewer.host.locations.importing import import_location
    from viewer.models import Location, Run

    client = logged_in()
    start_readers(client)

    def whole_list() -> None:
        location = Location.objects.get()
        import_location(location)
        assert location.runs.count() == threads
        client.get(location.get_absolute_url())

    def thread_page() -> None:
        run = Run.objects.filter(indexed_fingerprint="").order_by("pk")[0]
        assert client.get(run.get_absolute_url()).status_code == 200

    def describe_all() -> None:
        while import_location(Location.objects.get()).is_news:
            pass

    print()
    print_heading("", "processor seconds", "seconds", "goal")
    report("add the file and show its first rows", lambda: add_and_show(database, client), GOAL_FIRST_ROWS)
    report("list all threads", whole_list, GOAL_LIST)
    report("open a thread for the first time", thread_page, GOAL_THREAD, ROUNDS)
    report("read the status and inputs of all threads in the background", describe_all)


def report(what: str, work: Callable[[], object], goal: float | str = "", rounds: int = 1) -> None:
    """Print the medians of the seconds that a call takes."""
    found = [timed(work) for _round in range(rounds)]
    used, passed = (median(getattr(one, name) for one in found) for name in ("used", "passed"))
    print_row(what, f"{used:.2f}", f"{passed:.2f}", goal)


if __name__ == "__main__":
    main()
