"""A listed thread that grows in PostgreSQL: only what was appended is read, and other changes are noticed."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection, sql

from tests.langgraph.conftest import opened
from tests.langgraph.databases import checkpoint_id
from tests.langgraph.listing.test_appended import assert_complete
from tests.langgraph.postgresql.server import READER
from viewer.engines.langgraph.threads.postgresql import PostgresqlTables
from viewer.engines.langgraph.threads.store import LangGraphStore
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.host.locations.sources import address_of
from viewer.models import Checkpoint, Location
from viewer.stores import postgresql as postgresql_database
from viewer.stores.protocol import RunIndex

Added = Callable[[], Location]
Owner = Connection[Any]
COUNT = 30
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


def add(owner: Owner, number: int, parent: int | None = None) -> str:
    """Add a checkpoint with one write to the thread ``t``, after the one with the number before."""
    before = number - 1 if parent is None else parent
    owner.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
        """ metadata) VALUES ('t', '', %s, %s, '{"channel_versions": {}}', '{"source": "loop"}')""",
        (checkpoint_id(number), checkpoint_id(before) if number else None),
    )
    write(owner, number, 0)
    return checkpoint_id(number)


def write(owner: Owner, number: int, index: int) -> None:
    """Add a write after a checkpoint."""
    owner.execute(
        "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,"
        " channel, type, blob) VALUES ('t', '', %s, %s, '~__pregel_pull, node', %s, 'value', 'json', '1')",
        (checkpoint_id(number), f"task {index}", index),
    )


@pytest.fixture
def location(added: Added, owner: Owner) -> Location:
    """A location with a thread of 30 checkpoints, each with one write."""
    for number in range(COUNT):
        add(owner, number)
    return added()


def listed(location: Location, since: str = "") -> tuple[RunIndex, list[str]]:
    """Return the index of the thread, and the ids of the checkpoints whose bodies were read for it."""
    bodies: list[str] = []

    class Recorded(PostgresqlTables):
        def checkpoint(self, key: Any, max_bytes: int, decoder: Any = None) -> Any:
            bodies.append(key.checkpoint_id)
            return super().checkpoint(key, max_bytes, decoder)

    address = address_of(location)
    assert address.server is not None
    with LangGraphStore(Recorded(address.server, address.limits), []) as store:
        return store.index("t", since=since), bodies


def test_of_an_appended_checkpoint_only_its_own_row_is_read(location: Location, owner: Owner) -> None:
    before, _bodies = listed(location)
    new = add(owner, COUNT)
    index, bodies = listed(location, before.cursor)
    assert index.is_appended and set(bodies) == {new}
    # Its parent is a head no longer.
    assert [one.checkpoint_id for one in index.snapshots] == [checkpoint_id(COUNT - 1), new]
    complete = listed(location)[0]
    assert index.snapshots == complete.snapshots[-2:]
    assert index.runs == complete.runs and index.cursor == complete.cursor


def test_nothing_is_read_of_a_thread_that_has_not_changed(location: Location, owner: Owner) -> None:
    before, _bodies = listed(location)
    owner.execute("UPDATE checkpoints SET metadata = metadata WHERE thread_id = 'fan-failed'")
    index, bodies = listed(location, before.cursor)
    assert index.is_appended and (index.runs, index.snapshots, bodies) == ([], [], [])
    assert index.cursor == before.cursor


def test_a_pending_write_changes_the_head_only(location: Location, owner: Owner) -> None:
    before, _bodies = listed(location)
    write(owner, COUNT - 1, -1)
    index, _bodies = listed(location, before.cursor)
    assert index.is_appended and [one.trigger for one in index.snapshots] == ["loop_failed"]
    assert index.runs[0].status == "failed"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM checkpoints WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoints SET metadata = metadata WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoints SET metadata = '{{}}' WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = '{early}'",
        "DELETE FROM checkpoint_writes WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoint_writes SET blob = '2' WHERE checkpoint_id = '{early}'",
        "UPDATE checkpoint_writes SET idx = -1 WHERE checkpoint_id = '{early}'",
        "DELETE FROM checkpoints WHERE checkpoint_id = '{head}'",
    ],
)
def test_any_other_change_lists_the_whole_thread(location: Location, owner: Owner, statement: str) -> None:
    before, _bodies = listed(location)
    ids = {"early": checkpoint_id(7), "head": checkpoint_id(COUNT - 1)}
    owner.execute(statement.format(**ids).encode())
    index, _bodies = listed(location, before.cursor)
    assert not index.is_appended and index == listed(location)[0]


def test_a_fork_and_a_late_write_list_the_whole_thread(location: Location, owner: Owner) -> None:
    before, _bodies = listed(location)
    add(owner, COUNT, parent=7)
    assert not listed(location, before.cursor)[0].is_appended
    cursor = listed(location)[0].cursor
    write(owner, 7, 1)
    assert not listed(location, cursor)[0].is_appended


def test_rows_of_an_unchanged_prefix_are_not_written(location: Location, owner: Owner) -> None:
    run = opened(location, "t")
    add(owner, COUNT)
    add(owner, COUNT + 1)
    summary = import_run(run)
    assert (summary.added, summary.changed, summary.pruned) == (2, 1, 0)
    assert_complete(run)
    owner.execute("DELETE FROM checkpoints WHERE checkpoint_id = %s", [checkpoint_id(3)])
    assert import_run(run).pruned == 1
    assert run.checkpoints.get(checkpoint_id=checkpoint_id(3)).state == Checkpoint.State.PRUNED


def test_a_growing_thread_is_listed_as_completely_as_at_once(added: Added, owner: Owner) -> None:
    location = added()
    for thread in ("map-sub-done", "appr-two-answers"):
        for table in TABLES:
            name = sql.Identifier(f"old_{table}")
            query = sql.SQL("CREATE TABLE {} AS SELECT * FROM {} WHERE thread_id = {}")
            owner.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
            owner.execute(query.format(name, sql.Identifier(table), sql.Literal(thread)))
            removed = sql.SQL("DELETE FROM {} WHERE thread_id = {}")
            owner.execute(removed.format(sql.Identifier(table), sql.Literal(thread)))
        owner.execute("INSERT INTO checkpoint_blobs SELECT * FROM old_checkpoint_blobs")
        ids = owner.execute("SELECT checkpoint_id FROM old_checkpoints ORDER BY 1").fetchall()
        for (own_id,) in ids:
            for table in ("checkpoints", "checkpoint_writes"):
                query = sql.SQL("INSERT INTO {} SELECT * FROM {} WHERE checkpoint_id = {}")
                old = sql.Identifier(f"old_{table}")
                owner.execute(query.format(sql.Identifier(table), old, sql.Literal(own_id)))
                import_location(location)
                assert_complete(opened(location, thread))


def marked(location: Location) -> PostgresqlTables:
    address = address_of(location)
    assert address.server is not None
    return PostgresqlTables(address.server, address.limits)


ELSEWHERE = [
    "CREATE TABLE orders (id int)",
    "INSERT INTO orders VALUES (1), (2)",
    "UPDATE orders SET id = id + 1",
    "DELETE FROM orders",
    "DROP TABLE orders",
    "CREATE ROLE somebody",
    "DROP ROLE somebody",
    "VACUUM checkpoints",
    "ANALYZE",
    "CREATE DATABASE another_one",
    "DROP DATABASE another_one",
]
HERE = [
    "INSERT INTO checkpoint_writes SELECT thread_id, checkpoint_ns, checkpoint_id, 'late', 9, channel, type,"
    " blob, task_path FROM checkpoint_writes LIMIT 1",
    "UPDATE checkpoint_writes SET idx = idx WHERE task_id = 'late'",
    "DELETE FROM checkpoint_writes WHERE task_id = 'late'",
    "UPDATE checkpoints SET metadata = metadata WHERE thread_id = 't'",
    "UPDATE checkpoint_blobs SET blob = blob WHERE thread_id = 'fan-failed'",
    "DELETE FROM checkpoints WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
    "TRUNCATE checkpoint_blobs",
]


def test_a_write_elsewhere_does_not_change_the_mark(location: Location, owner: Owner) -> None:
    with marked(location) as tables, marked(location) as other:
        before = tables.mark()
        for statement in ELSEWHERE:
            owner.execute(statement.encode())
            assert tables.mark() == other.mark() == before, statement


def test_each_change_of_the_tables_changes_the_mark(location: Location, owner: Owner) -> None:
    with marked(location) as tables, marked(location) as other:
        before = tables.mark()
        for statement in HERE:
            owner.execute(statement.encode())
            mark = tables.mark()
            assert mark == other.mark() and mark != before, statement
            before = mark


def test_an_unfinished_write_changes_the_mark_when_it_is_committed(location: Location, owner: Owner) -> None:
    with marked(location) as tables:
        before = tables.mark()
        with owner.transaction():
            owner.execute("UPDATE checkpoints SET metadata = metadata")
            assert tables.mark() == before
        assert tables.mark() != before
        before = tables.mark()
        with owner.transaction(force_rollback=True):
            owner.execute("DELETE FROM checkpoints")
        assert tables.mark() == before


def test_partitions_count_as_rows_of_their_table(location: Location, owner: Owner) -> None:
    owner.execute(
        "CREATE TABLE partitioned (LIKE checkpoints) PARTITION BY HASH (thread_id);"
        "CREATE TABLE part_0 PARTITION OF partitioned FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE part_1 PARTITION OF partitioned FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
        "INSERT INTO partitioned SELECT * FROM checkpoints; DROP TABLE checkpoints;"
        "ALTER TABLE partitioned RENAME TO checkpoints; GRANT SELECT ON checkpoints TO PUBLIC"
    )
    with marked(location) as tables:
        before = tables.mark()
        owner.execute("CREATE TABLE orders (id int)")
        assert tables.mark() == before
        owner.execute("UPDATE part_1 SET metadata = metadata")
        assert tables.mark() != before


def test_large_tables_are_listed_after_any_write(
    location: Location, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_database, "MAX_DIGESTED_BYTES", 8192)
    with marked(location) as tables:
        before = tables.mark()
        owner.execute("CREATE TABLE orders (id int)")
        assert tables.mark() != before


def test_a_role_that_sees_only_columns_is_told_of_each_write(location: Location, owner: Owner) -> None:
    owner.execute(
        f"REVOKE SELECT ON checkpoint_blobs FROM {READER}; GRANT SELECT"
        f" (thread_id, checkpoint_ns, channel, version, type, blob) ON checkpoint_blobs TO {READER}"
    )
    with marked(location) as tables:
        before = tables.mark()
        owner.execute("UPDATE checkpoints SET metadata = metadata")
        assert tables.mark() != before


def test_a_location_is_not_listed_after_a_write_elsewhere(location: Location, owner: Owner) -> None:
    import_location(location)
    location.refresh_from_db()
    before = location.listed_fingerprint
    owner.execute("CREATE TABLE orders (id int)")
    import_location(location)
    location.refresh_from_db()
    assert before and location.listed_fingerprint == before
