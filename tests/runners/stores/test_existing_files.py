"""However a run ends, every existing file of its location is unchanged, byte for byte."""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.engine_runs.checkpoints import after_task, rows
from tests.engine_runs.runs import marks, request_for
from tests.runners.conftest import Engine

PRUNING = {"options": {"checkpoints": {"events": ["task_started", "task_completed"], "max_checkpoints": 1}}}


def test_a_fork_a_cancel_and_a_kill_change_no_existing_file(engine: Engine, stores: Path) -> None:
    location = stores / "crew"
    start = after_task(location, 2)
    # Also files next to the checkpoints, in the folder that the runs write to.
    for name in ("main/mine.json", "what-if/notes.json", "what-if/20260101T000000_aaaaaaaa_p-none.json"):
        (location / name).parent.mkdir(exist_ok=True)
        (location / name).write_text('{"entities": []}')
    before = marks(location)
    request = request_for(start, location, branch="what-if") | PRUNING
    engine.completed(request)
    engine.model.reset()
    cancelled = engine.interrupt(request, signal.SIGINT)
    assert cancelled.end["status"] == "cancelled"
    engine.model.reset()
    killed = engine.interrupt(request_for(start, location, kind="resume") | PRUNING, signal.SIGKILL)
    assert killed.status == -signal.SIGKILL
    after = marks(location)
    assert {path: after.get(path) for path in before} == before
    # The runs did write: each except the killed one left its newest checkpoint.
    assert len(set(after) - set(before)) >= 2


def test_a_store_replaced_meanwhile_is_unchanged(engine: Engine, stores: Path) -> None:
    store = Path(shutil.copy(stores / "store.db", stores / "press.db"))
    start = rows(store)[0]
    request = request_for(start, store, store_kind="sqlite")
    store.unlink()
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("CREATE TABLE customers (name)")
    before = marks(stores)
    run = engine.run(request)
    assert run.end["status"] == "failed" and "is now a different database" in run.end["error"]
    assert marks(stores) == before
