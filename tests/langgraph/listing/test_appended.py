"""A listed thread that grows: only what was appended is read, and any other change is noticed."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.langgraph.conftest import RECORDED, VERSIONS
from tests.langgraph.databases import Database, checkpoint_id, long_thread, packed
from viewer.engines.langgraph.threads.store import LangGraphStore, SqliteTables
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Checkpoint, Location, Run
from viewer.stores.protocol import ReadLimits, RunIndex

COUNT = 30
# What a page shows of checkpoints and runs, and what the next import compares.
SHOWN = (
    *("pk", "source_key", "fingerprint", "state", "parent_id", "parent_link", "branch", "lane", "row"),
    *("is_branch_head", "trigger", "step", "turn", "units", "created_at", "size", "name", "run_id"),
)
SHOWN_OF_RUN = (
    *("pk", "key", "parent_id", "called_from", "head", "status", "name", "entity", "first_at", "last_at"),
    *("checkpoint_count", "branch_count", "lane_count", "tokens", "seconds", "is_forked", "lineage_faults"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A thread of 30 checkpoints, each with one write, in WAL mode as LangGraph's savers use it."""
    made = long_thread(tmp_path / "threads.db", COUNT, {})
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    return made


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """The open database, to which a test adds."""
    opened = Database(path, "")
    with closing(opened.connection):
        yield opened


@pytest.fixture
def run(db: None, path: Path) -> Run:
    """The listed thread."""
    location = open_location(path)
    import_location(location)
    run = location.runs.select_related("location").get()
    import_run(run)
    return run


def listed(path: Path, since: str = "") -> tuple[RunIndex, list[str]]:
    """Return the index of the thread, and the ids of the checkpoints whose bodies were read for it."""
    bodies: list[str] = []

    class Recorded(SqliteTables):
        def checkpoint(self, key: Any, max_bytes: int, decoder: Any = None) -> Any:
            bodies.append(key.checkpoint_id)
            return super().checkpoint(key, max_bytes, decoder)

    with LangGraphStore(Recorded(path, ReadLimits()), []) as store:
        return store.index("t", since=since), bodies


def test_a_state_is_left_only_where_everything_is_read_at_once(path: Path, database: Database) -> None:
    database.connection.execute("PRAGMA journal_mode = DELETE")
    assert listed(path)[0].cursor == ""


def test_a_listing_reads_one_state_while_another_program_writes(path: Path, database: Database) -> None:
    class Interrupted(SqliteTables):
        def read_schema(self) -> None:
            super().read_schema()
            read = self.rows.tasks

            def interrupted(thread: str, keys: Any = None) -> Any:
                # A write after an older checkpoint, and a new one, when the checkpoints have been read.
                database.write(7, 1, "late", b"\x01", task_id="late")
                database.add(COUNT, packed({}))
                return read(thread, keys)

            self.rows.tasks = interrupted  # type: ignore[method-assign]

    # The writer has the file open, so that it is read next to its log.
    database.write(8, 1, "early", b"\x01", task_id="early")
    with LangGraphStore(Interrupted(path, ReadLimits()), []) as store:
        before = store.index("t")
    assert before.snapshots[-1].checkpoint_id == checkpoint_id(COUNT - 1)
    index, _bodies = listed(path, before.cursor)
    assert not index.is_appended and index.snapshots[-1].checkpoint_id == checkpoint_id(COUNT)


def test_of_an_appended_checkpoint_only_its_own_row_is_read(path: Path, database: Database) -> None:
    before, _bodies = listed(path)
    new = database.add(COUNT, packed({"value": COUNT}))
    index, bodies = listed(path, before.cursor)
    assert index.is_appended and set(bodies) == {new}
    # Its parent is a head no longer.
    assert [one.checkpoint_id for one in index.snapshots] == [checkpoint_id(COUNT - 1), new]
    complete = listed(path)[0]
    assert index.snapshots == complete.snapshots[-2:]
    assert index.runs == complete.runs and index.cursor == complete.cursor


def test_nothing_is_read_of_a_thread_that_has_not_changed(path: Path, database: Database) -> None:
    before, _bodies = listed(path)
    database.add(1, packed({}), thread_id="another")
    index, bodies = listed(path, before.cursor)
    assert index.is_appended and (index.runs, index.snapshots, bodies) == ([], [], [])
    assert index.cursor == before.cursor


def test_a_pending_write_changes_the_head_only(path: Path, database: Database) -> None:
    before, _bodies = listed(path)
    database.write(COUNT - 1, -1, "__error__", b"\x01", task_id="task-2")
    index, _bodies = listed(path, before.cursor)
    assert index.is_appended and [one.trigger for one in index.snapshots] == ["loop_failed"]
    assert index.runs[0].status == "failed"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM checkpoints WHERE checkpoint_id = '{early}'",
        "INSERT OR REPLACE INTO checkpoints SELECT * FROM checkpoints WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoints SET metadata = '{{}}' WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = '{early}'",
        "DELETE FROM writes WHERE checkpoint_id = '{early}'",
        "INSERT OR REPLACE INTO writes SELECT * FROM writes WHERE checkpoint_id = '{early}'",
        "UPDATE writes SET idx = -1 WHERE checkpoint_id = '{early}'",
        "DELETE FROM checkpoints WHERE checkpoint_id = '{head}'",
        "INSERT INTO checkpoints SELECT thread_id, '', '{fork}', '{early}', type, checkpoint, metadata"
        " FROM checkpoints WHERE checkpoint_id = '{early}'",
        "INSERT INTO checkpoints SELECT thread_id, '', '{fork}', NULL, type, checkpoint, metadata"
        " FROM checkpoints WHERE checkpoint_id = '{early}'",
    ],
)
def test_any_other_change_lists_the_whole_thread(path: Path, database: Database, statement: str) -> None:
    before, _bodies = listed(path)
    ids = {"early": checkpoint_id(7), "head": checkpoint_id(COUNT - 1), "fork": checkpoint_id(COUNT)}
    database.connection.execute(statement.format(**ids))
    index, _bodies = listed(path, before.cursor)
    assert not index.is_appended and index == listed(path)[0]


@pytest.mark.parametrize("state", ["", "{", "[]", '[0,"",1,"",[],{}]'])
def test_an_unknown_state_lists_the_whole_thread(path: Path, state: str) -> None:
    index, _bodies = listed(path, state)
    assert not index.is_appended and len(index.snapshots) == COUNT


def test_rows_of_an_unchanged_prefix_are_not_written(run: Run, database: Database) -> None:
    before = shown(run.location)
    database.add(COUNT, packed({}))
    database.add(COUNT + 1, packed({}))
    summary = import_run(run)
    assert (summary.added, summary.changed, summary.pruned) == (2, 1, 0)
    after = shown(run.location)
    assert after[0][: COUNT - 1] == before[0][: COUNT - 1]
    assert_complete(run)


def test_deleted_and_replaced_rows_are_noticed(run: Run, database: Database) -> None:
    database.connection.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", [checkpoint_id(0)])
    assert import_run(run).pruned == 1
    gone = run.checkpoints.get(checkpoint_id=checkpoint_id(0))
    assert gone.state == Checkpoint.State.PRUNED
    metadata = b'{"source": "update", "step": 6, "writes": {"editor": 1}}'
    database.connection.execute(
        "UPDATE checkpoints SET metadata = ? WHERE checkpoint_id = ?", [metadata, checkpoint_id(7)]
    )
    assert import_run(run).changed >= 1
    assert run.checkpoints.get(checkpoint_id=checkpoint_id(7)).trigger == "update"


def test_a_row_that_is_to_be_read_again_is_read_again(run: Run, database: Database) -> None:
    run.checkpoints.filter(checkpoint_id=checkpoint_id(7)).update(fingerprint="")
    database.add(COUNT, packed({}))
    import_run(run)
    assert not run.checkpoints.filter(fingerprint="").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_growing_thread_is_listed_as_completely_as_at_once(db: None, tmp_path: Path, version: str) -> None:
    path = tmp_path / "threads.db"
    location = None
    for thread in ("fan-forked", "map-sub-done", "appr-two-answers"):
        for _step in replayed(RECORDED / f"{version}.db", path, thread):
            location = location or open_location(path)
            import_location(location)
            run = location.runs.select_related("location").get(key=thread)
            import_run(run)
            assert_complete(run)


def replayed(recorded: Path, path: Path, thread: str) -> Iterator[None]:
    """Write the rows of a recorded thread one after the other, each checkpoint before its writes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("ATTACH ? AS old", [str(recorded)])
        for (created,) in connection.execute("SELECT sql FROM old.sqlite_schema WHERE sql > ''").fetchall():
            connection.execute(re.sub("TABLE (IF NOT EXISTS )?", "TABLE IF NOT EXISTS ", created, count=1))
        ids = "SELECT checkpoint_id FROM old.checkpoints WHERE thread_id = ? ORDER BY checkpoint_id"
        for (own_id,) in connection.execute(ids, [thread]).fetchall():
            for table in ("checkpoints", "writes"):
                rows = f"SELECT * FROM old.{table} WHERE thread_id = ? AND checkpoint_id = ?"
                connection.execute(f"INSERT INTO main.{table} {rows}", [thread, own_id])
                yield


def assert_complete(run: Run) -> None:
    """Fail unless a complete listing changes nothing that is shown."""
    appended = shown(run.location)
    Run.objects.filter(pk=run.pk).update(indexed_fingerprint="", listed_state="")
    import_run(run)
    assert shown(run.location) == appended


def shown(location: Location) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return what is shown of the checkpoints and runs of a location."""
    rows = location.checkpoints.order_by("run_id", "row").values_list(*SHOWN)
    return list(rows), list(location.runs.order_by("pk").values_list(*SHOWN_OF_RUN))
