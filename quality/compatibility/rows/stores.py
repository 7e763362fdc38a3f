"""Stores that checkpoints are read from and written to."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import ENTRY_POINT, after, recorded_after
from quality.compatibility.sandbox import Failed, Sandbox, grown, holds, same
from quality.local_stores import store_at
from tests.engine_runs.checkpoints import rows
from tests.engine_runs.runs import KEY, PRESS, Saved, marks, request_for, saved_in
from viewer.host.reading.snapshots import read_snapshot
from viewer.stores.protocol import Entry

OLD_STORES = Path(__file__).resolve().parents[3] / "tests/recorded_stores/1.14.1"
OLD_SQLITE = """\
import sqlite3, sys
sqlite3.sqlite_version_info, sqlite3.sqlite_version = (3, 40, 1), '3.40.1'
sys.modules['pysqlite3'] = None
"""


@row("stores", "JSON at a relative location, from another working folder")
def relative(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 3)
    saved = start.root["checkpoint"]["location"]
    holds(f"the saved location is relative: {saved}", not Path(saved).is_absolute())
    sandbox.completed(request_for(start, location, kind="resume"))
    new = grown(location, before, start, "main")
    same("checkpoints written", len(new), 2)
    same("saved location", new[-1].root["checkpoint"]["location"], str(location))
    elsewhere = [*PRESS.rglob("*.json"), *sandbox.folder.glob("job-1/**/*.json")]
    same("files elsewhere", {path.name for path in elsewhere}, {"request.json", "reserved.json"})


def added(store: Path, before: list[Saved], start: Saved, branch: str) -> list[Saved]:
    """Return the new rows, a chain after ``start``. The others must be unchanged."""
    now = rows(store)
    same("rows as they were", now[: len(before)], before)
    new = now[len(before) :]
    same("parents", [one.parent for one in new], [start.id, *[one.id for one in new[:-1]]])
    same("branches", {one.branch for one in new}, {branch})
    return new


@row("stores", "SQLite: fork")
def sqlite(sandbox: Sandbox) -> None:
    store = sandbox.recorded("simple", "sqlite")
    before = rows(store)
    start = next(one for one in before if one.done == 2)
    run = sandbox.completed(request_for(start, store, store_kind="sqlite"))
    new = added(store, before, start, "try-it")
    same("finished tasks at the end", new[-1].done, 4)
    same("reported checkpoints", [line["path"] for line in run.of("checkpoint")], [one.source for one in new])
    neighbours = sorted(path.name for path in store.parent.iterdir() if path.name.startswith("store"))
    same("files next to it", neighbours, ["store"])


@row("stores", "SQLite too old in the interpreter is refused")
def old_sqlite(sandbox: Sandbox) -> None:
    store = sandbox.recorded("simple", "sqlite")
    before = marks(store)
    (sandbox.folder / "old").mkdir()
    (sandbox.folder / "old/sitecustomize.py").write_text(OLD_SQLITE)
    request = request_for(rows(store)[0], store, store_kind="sqlite")
    run = sandbox.refused(request, "3.40.1", PYTHONPATH=str(sandbox.folder / "old"))
    holds("what to do is reported", "pip install pysqlite3" in run.end["error"])
    same("files changed", marks(store), before)


@row("stores", "JSON location of 1.14.0 and 1.14.1")
def old_json(sandbox: Sandbox) -> None:
    location = Path(shutil.copytree(OLD_STORES / "json", sandbox.folder / "old"))
    before = marks(location)
    start = next(saved for saved in reversed(saved_in(location)) if 0 < saved.done < len(saved.tasks))
    ended(sandbox, start, request_for(start, location))
    new = grown(location, before, start, "try-it")
    same("finished tasks at the end", new[-1].done, len(start.tasks))


@row("stores", "SQLite store of 1.14.0 and 1.14.1")
def old_store(sandbox: Sandbox) -> None:
    store = Path(shutil.copy(OLD_STORES / "cp.db", sandbox.folder / "store"))
    before = rows(store)
    start = next(one for one in reversed(before) if 0 < one.done < len(one.tasks))
    ended(sandbox, start, request_for(start, store, store_kind="sqlite"))
    same("finished tasks at the end", added(store, before, start, "try-it")[-1].done, len(start.tasks))


def redacted(location: Path, identifier: str, copy: Path) -> Path:
    """Return the stored copy of a checkpoint."""
    with store_at(location) as opened:
        entries = [entry for entry in opened.entries() if isinstance(entry, Entry)]
        snapshots = [read_snapshot(opened, entry) for entry in entries]
    copy.write_bytes(next(one.body for one in snapshots if one.checkpoint_id == identifier))
    return copy


@row("stores", "a pruned checkpoint that is only in the stored copy")
def pruned_json(sandbox: Sandbox) -> None:
    location = sandbox.recorded("simple")
    start = after(location, 2)
    copy = redacted(location, start.id, sandbox.folder / "copy.json")
    holds("its copy has no key", KEY not in copy.read_text() and KEY in Path(start.source).read_text())
    Path(start.source).unlink()
    before = marks(location)
    for kind, entry_point in (("fork", ENTRY_POINT), ("resume", ENTRY_POINT), ("fork", "")):
        request = request_for(start, location, kind=kind, entry_point=entry_point)
        request["checkpoint"] |= {"source": str(copy), "stored": True}
        sandbox.model.reset()
        if not entry_point:
            sandbox.refused(request, "was pruned")
            continue
        sandbox.continued(request, "Write Title")
        same("keys that the model was called with", set(sandbox.model.keys), {f"Bearer {KEY}"})
        new = grown(location, before, start, "try-it" if kind == "fork" else "main")
        same("finished tasks at the end", new[-1].done, 4)
        before = marks(location)


@row("stores", "a pruned checkpoint of a SQLite store")
def pruned_sqlite(sandbox: Sandbox) -> None:
    store = sandbox.recorded("simple", "sqlite")
    start = next(one for one in rows(store) if one.done == 2)
    copy = redacted(store, start.id, sandbox.folder / "copy.json")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM checkpoints WHERE id = ?", (start.id,))
    before = rows(store)
    request = request_for(start, store, store_kind="sqlite", entry_point=ENTRY_POINT)
    request["checkpoint"] |= {"source": str(copy), "stored": True}
    sandbox.continued(request, "Write Title")
    same("finished tasks at the end", added(store, before, start, "try-it")[-1].done, 4)


def ended(sandbox: Sandbox, start: Saved, request: dict[str, Any]) -> None:
    """Run to the end, and check that the model was called for the open tasks only."""
    run = sandbox.completed(request)
    open_tasks = len(start.tasks) - start.done
    started = len(run.of("task_started"))
    if (started, len(sandbox.model.requests)) != (open_tasks, open_tasks):
        raise Failed(f"{started} tasks and {len(sandbox.model.requests)} calls instead of {open_tasks}")
