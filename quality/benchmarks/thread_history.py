"""Opens a LangGraph thread of 10,000 checkpoints, next to LangGraph's own ``get_state_history`` of it.

python -m quality.benchmarks.thread_history [STEPS]
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from quality.benchmarks import many_threads
from quality.benchmarks.large_location import corpus
from quality.temporary_data_folder import own_data

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "demo/support/.venv/bin/python"
STEPS = 10_000
GOAL_TIMES = 20
# Compared with a run of CrewAI.
SUPER_STEPS, GOAL_OF_RUN = 5_000, 2
# The whole history, as a program of LangGraph's user reads it.
HISTORY = """
import sqlite3, sys, time
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import StateGraph
State = TypedDict("State", {"value": int, "text": str})
builder = StateGraph(State)
builder.add_node("node", lambda state: {})
builder.set_entry_point("node")
graph = builder.compile(checkpointer=SqliteSaver(sqlite3.connect(sys.argv[1])))
for _round in range(3):
    began = time.perf_counter()
    count = sum(1 for _ in graph.get_state_history({"configurable": {"thread_id": sys.argv[2]}}))
    print(count, time.perf_counter() - began)
"""


def main() -> None:
    """Generate a thread, measure both, and print the table."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    many_threads.LONG_STEPS = steps
    with own_data() as folder:
        database = folder / "threads.db"
        many_threads.generate(database, 10, 2)
        theirs = history(database, steps)
        indexed, opened, again = measure(database)
        thread, run = compared_with_run(folder)
    print(f"\n{steps:,} checkpoints of one thread\n")
    print("| | seconds | times faster | goal |\n|---|---:|---:|---:|")
    print(f"| `get_state_history` | {theirs:.2f} | | |")
    for what, seconds, goal in (
        ("list the lineage, the first time", indexed, f"{GOAL_TIMES}"),
        ("show the page after that", opened, ""),
        ("show it again", again, ""),
    ):
        print(f"| {what} | {seconds:.2f} | {theirs / seconds:.1f} | {goal} |")

    print(f"\n{SUPER_STEPS:,} super-steps, next to a CrewAI run of as many checkpoints\n")
    print("| | processor seconds | goal |\n|---|---:|---:|")
    print(f"| open the run for the first time | {run:.2f} | |")
    print(f"| open the thread for the first time | {thread:.2f} | {GOAL_OF_RUN} times {run:.2f} |")


def compared_with_run(folder: Path) -> tuple[float, float]:
    """Processor seconds from nothing to the page of a thread, and to that of a CrewAI run of its size."""
    from viewer.importing import import_location, open_location

    many_threads.LONG_STEPS = SUPER_STEPS
    many_threads.generate(folder / "shorter.db", 10, 2)
    corpus.write_run(folder / "run", 0, corpus.START, SUPER_STEPS, 0)
    thread, run = (open_location(folder / name) for name in ("shorter.db", "run"))
    import_location(thread)
    client, used = logged_in(), list[float]()
    long = thread.runs.get(key=many_threads.LONG_THREAD)

    def shown_run() -> None:
        import_location(run)
        client.get(run.runs.get().get_absolute_url())

    for work in (lambda: client.get(long.get_absolute_url()), shown_run):
        before = processor_seconds()
        work()
        used.append(processor_seconds() - before)
    return used[0], used[1]


def logged_in() -> Any:
    """A client that may run."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(headers={"host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    client.force_login(User.objects.get_or_create(username="bench", is_superuser=True)[0])
    return client


def processor_seconds() -> float:
    """Processor time of this process and its reader processes."""
    readers = psutil.Process().children()
    return time.process_time() + sum(sum(reader.cpu_times()[:2]) for reader in readers)


def history(database: Path, steps: int) -> float:
    """The seconds in which LangGraph reads the history of the thread."""
    command = [str(PYTHON), "-c", HISTORY, str(database), many_threads.LONG_THREAD]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert all(int(line.split()[0]) == steps for line in lines), lines
    return median(float(line.split()[1]) for line in lines)


def measure(database: Path) -> tuple[float, float, float]:
    """The seconds of listing the thread's checkpoints, and of its page, twice."""
    from viewer.importing import import_location, import_run, open_location
    from viewer.models import Run

    client = logged_in()
    location = open_location(database)
    for _twice in range(2):
        import_location(location)
    run, short = (
        Run.objects.select_related("location").get(key=key)
        for key in (many_threads.LONG_THREAD, "thread-000001")
    )
    # A server has loaded its code and templates.
    client.get(short.get_absolute_url())

    def timed(work: Any) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    listed = timed(lambda: import_run(run))
    first, second = (timed(lambda: client.get(run.get_absolute_url())) for _page in range(2))
    return listed, first, second


if __name__ == "__main__":
    main()
