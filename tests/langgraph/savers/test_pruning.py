"""A project's own saver deletes whole threads, and nothing else."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.langgraph.conftest import copied
from tests.langgraph.savers.conftest import SQLITE
from viewer.host.jobs.thread_pruning import list_prunable, prune
from viewer.host.locations.importing import import_location
from viewer.host_requests import PruneRefused, PruneRules
from viewer.models import Checkpoint, Location, StoredCopy

OLD = PruneRules(days=1, whole_threads=True)
FAILING = """
class Saver(SqliteSaver):
    def delete_thread(self, thread_id):
        if thread_id == "map-sub-done":
            raise {error}
        super().delete_thread(thread_id)

def saver():
    return Saver(sqlite3.connect("{database}", check_same_thread=False))
"""
GROWING = """
class Saver(SqliteSaver):
    def delete_thread(self, thread_id):
        super().delete_thread(thread_id)
        self.conn.execute(
            "UPDATE checkpoints SET checkpoint_id = 'f' || checkpoint_id WHERE thread_id = 'map-sub-done'"
            " AND checkpoint_id NOT LIKE 'f%'"
        )
        self.conn.commit()

def saver():
    return Saver(sqlite3.connect("{database}", check_same_thread=False))
"""
IN_MEMORY = """
from langgraph.checkpoint.memory import InMemorySaver as saver
"""


def threads_in(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        tables = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
        return {str(thread) for (thread,) in connection.execute(tables)}


def test_a_saver_deletes_a_whole_thread(recorded: Location, tmp_path: Path) -> None:
    database = next(tmp_path.rglob("lg12.db"))
    before = threads_in(database)
    with pytest.raises(PruneRefused) as refused:
        list_prunable(recorded, PruneRules(latest=1))
    assert refused.value.message.code == "prune.saver_whole_only"
    rules = PruneRules(thread="map-sub-done", whole_threads=True)
    listed = list_prunable(recorded, rules)
    assert [(one.name, one.checkpoints) for one in listed.threads] == [("map-sub-done", 10)]
    assert threads_in(database) == before
    done = prune(recorded, rules, listed.digest)
    assert sorted(done.deleted) == sorted(listed.rows) and not done.kept
    assert threads_in(database) == before - {"map-sub-done"}
    gone = recorded.checkpoints.filter(state=Checkpoint.State.PRUNED)
    assert gone.count() == 10 == StoredCopy.objects.with_body().count()


@pytest.mark.parametrize("error", ["OSError('the server is away')", "SystemExit(0)"])
def test_a_saver_that_fails_names_what_is_left(
    project: Callable[[str], Location], tmp_path: Path, error: str
) -> None:
    database = Path(copied("lg12", tmp_path))
    location = project(SQLITE.format(database=database) + FAILING.format(database=database, error=error))
    import_location(location)
    listed = list_prunable(location, OLD)
    done = prune(location, OLD, listed.digest)
    assert threads_in(database) == {key.split("/")[0] for key in (one.key for one in done.kept)}
    assert "map-sub-done" in threads_in(database) and done.deleted
    assert sorted([*done.deleted, *(one.key for one in done.kept)]) == sorted(listed.rows)
    with pytest.raises(PruneRefused) as refused:
        prune(location, OLD, list_prunable(location, OLD).digest)
    assert refused.value.message.code == "saver.failed"


def test_a_saver_in_memory_deletes_nothing(project: Callable[[str], Location]) -> None:
    location = project(IN_MEMORY)
    with pytest.raises(PruneRefused) as refused:
        list_prunable(location, OLD)
    assert refused.value.message.code == "saver.in_memory"


def test_a_saver_that_does_not_tell_two_threads_apart_deletes_neither(
    recorded: Location, tmp_path: Path
) -> None:
    database = next(tmp_path.rglob("lg12.db"))
    with closing(sqlite3.connect(database)) as connection:
        for table in ("checkpoints", "writes"):
            (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            # As the databases of MySQL and MariaDB compare texts.
            caseless = sql.replace("thread_id TEXT NOT NULL", "thread_id TEXT NOT NULL COLLATE NOCASE")
            assert caseless != sql
            connection.executescript(f"ALTER TABLE {table} RENAME TO old; {caseless};")
            connection.executescript(f"INSERT INTO {table} SELECT * FROM old; DROP TABLE old;")
        renamed = "UPDATE checkpoints SET thread_id = 'Map-Sub-Done' WHERE thread_id = 'appr-done'"
        connection.executescript(renamed)
    listed = list_prunable(recorded, PruneRules(thread="map-sub-done", whole_threads=True))
    assert not listed.rows and listed.protected == {"not_listed": 1}


def test_a_thread_that_grows_while_others_are_deleted_stays(
    project: Callable[[str], Location], tmp_path: Path
) -> None:
    database = Path(copied("lg12", tmp_path))
    location = project(SQLITE.format(database=database) + GROWING.format(database=database))
    import_location(location)
    done = prune(location, OLD, list_prunable(location, OLD).digest)
    assert {key.split("/")[0] for key in (one.key for one in done.kept)} == {"map-sub-done"}
    assert threads_in(database) == {"map-sub-done"}
