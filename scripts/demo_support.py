"""Runs the demo's support agent with LangGraph: two threads, one of which waits and is forked twice."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from scripts import demo_rows

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "demo/support"
PYTHON = PROJECT / ".venv/bin/python"
ENTRY_POINTS = ["support.graph:graph"]
# The first message of each thread. Only the first refund is large enough to need a person.
THREADS = {"refund-1001": "I want my money back for order 1001.", "delivery-1002": "Where is my order 1002?"}
WAITING = "refund-1001"
ANSWERS = {"approved": "approve", "rejected": "reject"}


def store_of(folder: Path) -> Path:
    """Return the database of the threads."""
    return folder / "support/threads.db"


def run(folder: Path, start: Callable[[list[str], Path], None], command: Callable[..., object]) -> None:
    """Run every thread, and fork the waiting one with both answers. It keeps waiting.

    ``start`` runs a program in a folder to its end, ``command`` a command of ``manage.py checkpoints``.
    """
    store = store_of(folder)
    store.parent.mkdir()
    for thread, message in THREADS.items():
        start([str(PYTHON), "-m", "support.main", str(store), thread, message], PROJECT / "src")
    demo_rows.import_store(store)
    demo_rows.record_project(store.parent, PROJECT, PYTHON, folder / ".env", ENTRY_POINTS)
    waiting = f"{store}#{WAITING}/{newest_of(store, WAITING)}"
    project = ["--project", str(PROJECT), "--python", str(PYTHON), "--env-file", str(folder / ".env")]
    for branch, answer in ANSWERS.items():
        chosen = ("--branch", branch, "--answer", answer, "--entrypoint", ENTRY_POINTS[0])
        command("fork", waiting, *chosen, *project, "--wait")


def newest_of(store: Path, thread: str) -> str:
    """Return the id of a thread's newest checkpoint."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        query = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        return str(connection.execute(query, (thread,)).fetchone()[0])
