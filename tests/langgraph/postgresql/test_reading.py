"""Threads of a real PostgreSQL server, read as those of a SQLite file are, and never changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from psycopg import Connection
from pytest_django import Settings

from tests.engine_runs.graphs import WarmGraphs, run_program
from tests.langgraph.conftest import opened
from tests.langgraph.listing.test_newest_first import assert_same
from tests.langgraph.postgresql.server import OWNER, READER, Server
from tests.langgraph.test_changed_channels import PROGRAM, assert_as_langgraph_has_them
from tests.langgraph.test_threads import EXPECTED, FORKED
from viewer.engines.langgraph.threads import listing
from viewer.engines.langgraph.threads.postgresql import PostgresqlTables
from viewer.engines.langgraph.threads.store import LangGraphStore
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run, part_of
from viewer.host.locations.sources import address_of
from viewer.host.reading.location_reader import LocationReader
from viewer.models import Checkpoint, Location, Run, StoredCopy
from viewer.records.bodies import body_of, stored_contents
from viewer.stores.protocol import RunList

Added = Callable[[], Location]
Owner = Connection[Any]
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
# A copy of a thread's checkpoints.
ADDED = """
    INSERT INTO checkpoints SELECT (jsonb_populate_record(c, jsonb_build_object('thread_id', %(to)s::text))).*
    FROM checkpoints c WHERE thread_id = %(from)s
"""
# What each statement of a writer counts.
WRITTEN = """
    SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY relname
"""


def rows_of(server: Server, database: str) -> dict[str, Any]:
    """Return a digest of the rows of each table, with their row versions, and the counters of writes."""
    with server.connected(database) as connection:
        digests = {
            table: connection.execute(
                f"SELECT md5(string_agg(md5(t.xmin::text || t.ctid::text || t::text), '' ORDER BY t::text))"
                f" FROM {table} t"
            ).fetchone()
            for table in TABLES
        }
        return {**digests, "written": connection.execute(WRITTEN).fetchall()}


def channels_of(row: Checkpoint) -> list[str]:
    """Return the channels of a checkpoint's state."""
    contents: Any = stored_contents(row)
    return sorted(contents.channels)


def test_adding_a_database_lists_its_threads_and_stores_no_checkpoint(added: Added) -> None:
    location = added()
    assert (location.path, location.engine, location.store_kind) == (
        "postgresql:support",
        "langgraph",
        "postgresql",
    )
    listed = {run.key: (run.status, run.is_forked) for run in location.runs.all()}
    assert listed == {
        # That a thread has completed is known once it has been opened.
        thread: ("" if status == "completed" else status, branches > 1)
        for thread, (status, _n, branches, _i) in EXPECTED.items()
    }
    assert not Checkpoint.objects.exists() and not location.problems.exists()


def test_opening_a_thread_indexes_its_checkpoints_without_bodies(added: Added) -> None:
    location = added()
    for thread, (status, usual, branches, inner) in EXPECTED.items():
        run = opened(location, thread)
        count = FORKED["lg12"] if thread == "fan-forked" else usual
        assert (run.status, run.checkpoint_count, run.branch_count) == (status, count, branches)
        assert sum(one.checkpoint_count for one in run.called_runs.all()) == inner
    assert not StoredCopy.objects.exists()


def test_state_and_steps_equal_those_of_the_sqlite_saver(
    added: Added, threads: Callable[[str], Location]
) -> None:
    """The same programs wrote both, at different times: ids, versions and times differ."""
    shown = [
        [
            (row.trigger, row.step, row.turn, sorted(row.units), channels_of(row))
            for row in opened(location, thread).checkpoints.select_related("location").order_by("row")
        ]
        for thread in ("fan-recovered", "appr-two-answers", "map-sub-done", "appr-waiting")
        for location in (added(), threads("lg12"))
    ]
    assert shown[0::2] == shown[1::2]


def test_values_are_read_from_the_checkpoint_and_from_the_table_of_blobs(added: Added) -> None:
    last = opened(added(), "fan-recovered").checkpoints.select_related("location").latest("row")
    body = body_of(last)
    values = body["checkpoint"]["channel_values"]
    assert values["topic"] == "owls"
    assert isinstance(values["plan"], dict | list | str) and values["plan"]
    assert "__opaque__" not in str(body)


def test_the_newest_rows_are_those_of_the_complete_listing(
    added: Added, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MIN_CHECKPOINTS", 1)
    address = address_of(added())
    assert address.server
    with LangGraphStore(PostgresqlTables(address.server, address.limits), []) as store:
        for run in store.runs().runs:
            assert_same(store.index(run.key, newest_first=True), store.index(run.key))


@pytest.mark.parametrize("tab", ["state", "messages", "writes", "next", "subgraphs", "metadata", "raw"])
def test_every_tab_is_shown(added: Added, reader: Client, tab: str) -> None:
    run = opened(added(), "appr-waiting")
    last = run.checkpoints.latest("row")
    page = reader.get(run.get_absolute_url(), {"at": last.checkpoint_id, "tab": tab})
    assert page.status_code == 200


def test_reading_needs_only_select_and_changes_nothing(added: Added, server: Server, database: str) -> None:
    with server.connected(database) as connection:
        granted = connection.execute(
            "SELECT DISTINCT privilege_type FROM information_schema.role_table_grants WHERE grantee = %s",
            [READER],
        ).fetchall()
    assert granted == [("SELECT",)]
    before = rows_of(server, database)
    location = added()
    for thread in EXPECTED:
        for row in opened(location, thread).checkpoints.select_related("location"):
            stored_contents(row)
    assert rows_of(server, database) == before


def test_a_role_that_may_write_writes_nothing_either(
    added: Added, server: Server, database: str, settings: Settings
) -> None:
    settings.POSTGRESQL_LOCATIONS = {"support": server.connection(database, OWNER)}
    before = rows_of(server, database)
    assert opened(added(), "fan-failed").checkpoint_count == 3
    assert rows_of(server, database) == before


def test_no_transaction_stays_open(added: Added, owner: Owner) -> None:
    opened(added(), "fan-failed")
    others = owner.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND state <> 'idle'", [READER]
    ).fetchone()
    assert others == (0,)


def test_a_live_change_is_seen_on_refresh(added: Added, owner: Owner) -> None:
    location = added()
    run = opened(location, "fan-failed")
    copy = """
        INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, '1f1e53da-ffff-6728-8002-89ab32d363d6',
            checkpoint_id, type, checkpoint, metadata
        FROM checkpoints WHERE thread_id = 'fan-failed' ORDER BY checkpoint_id DESC LIMIT 1
    """
    owner.execute(copy)
    owner.execute(
        "INSERT INTO checkpoints SELECT 'new-thread', '', checkpoint_id, NULL, type, "
        "checkpoint, metadata FROM checkpoints WHERE thread_id = 'appr-done' LIMIT 1"
    )
    summary = import_location(location)
    assert summary.is_news and location.runs.filter(key="new-thread").exists()
    import_run(run)
    assert Run.objects.get(pk=run.pk).checkpoint_count == 4
    assert not import_location(location).is_news


def make_shallow(owner: Owner) -> None:
    """Keep the newest checkpoint of each namespace, and each channel's last value, as shallow savers do."""
    owner.execute(
        "DELETE FROM checkpoints c USING checkpoints n WHERE n.thread_id = c.thread_id "
        "AND n.checkpoint_ns = c.checkpoint_ns AND n.checkpoint_id > c.checkpoint_id"
    )
    owner.execute(
        "DELETE FROM checkpoint_blobs b USING checkpoint_blobs n WHERE n.thread_id = b.thread_id "
        "AND n.checkpoint_ns = b.checkpoint_ns AND n.channel = b.channel AND n.version > b.version"
    )
    owner.execute("ALTER TABLE checkpoints DROP COLUMN checkpoint_id, DROP parent_checkpoint_id")
    owner.execute("ALTER TABLE checkpoint_blobs DROP COLUMN version")


def test_the_tables_of_a_shallow_saver_are_read(added: Added, owner: Owner) -> None:
    make_shallow(owner)
    run = opened(added(), "appr-waiting")
    (row,) = run.checkpoints.select_related("location")
    contents: Any = stored_contents(row)
    assert (run.status, contents.thread_id, contents.id) == ("waiting", "appr-waiting", row.checkpoint_id)
    assert "__opaque__" not in str(contents.channels) and contents.channels


def test_a_shallow_thread_waits_by_an_interrupt_that_was_written_before_its_checkpoint(
    added: Added, owner: Owner
) -> None:
    make_shallow(owner)
    owner.execute(
        "UPDATE checkpoint_writes SET checkpoint_id = 'ffffffff-ffff-6fff-bfff-ffffffffffff'"
        " WHERE thread_id = 'appr-waiting' AND idx = -3"
    )
    location = added()
    assert location.runs.get(key__startswith="appr-waiting").status == "waiting"
    run = opened(location, "appr-waiting")
    assert (run.status, run.checkpoints.get().trigger) == ("waiting", "loop_waiting")


@pytest.mark.parametrize("lost", ["=", "<>"], ids=["of the graph", "of the subgraph"])
def test_a_shallow_thread_waits_by_the_interrupt_of_its_graph_or_its_subgraph(
    added: Added, owner: Owner, lost: str
) -> None:
    """The shallow savers of the first versions delete one of the two if the other thread is faster."""
    make_shallow(owner)
    task, inner = "0d4d301b-d1ce-a62c-99b6-70cac0aac326", "1f1e7b8c-2cf2-63fd-8001-ea17bcb3a1a1"
    (head,) = owner.execute(
        "SELECT checkpoint ->> 'id' FROM checkpoints WHERE thread_id = 'appr-waiting'"
    ).fetchone() or ("",)
    owner.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint, metadata) SELECT thread_id, %s,"
        " jsonb_set(checkpoint, '{id}', to_jsonb(%s::text)),"
        " jsonb_build_object('source', 'loop', 'step', 1, 'parents', jsonb_build_object('', %s::text))"
        " FROM checkpoints WHERE thread_id = 'appr-waiting'",
        (f"inner:{task}", inner, head),
    )
    owner.execute("DELETE FROM checkpoint_writes WHERE thread_id = 'appr-waiting'")
    for namespace, checkpoint, own in (("", head, task), (f"inner:{task}", inner, "task of the subgraph")):
        owner.execute(
            "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,"
            " channel, type, blob) VALUES ('appr-waiting', %s, %s, %s, '', -3, '__interrupt__', 'json', '1')",
            (namespace, checkpoint, own),
        )
    owner.execute(
        f"DELETE FROM checkpoint_writes WHERE thread_id = 'appr-waiting' AND checkpoint_ns {lost} ''".encode()
    )
    run = opened(added(), "appr-waiting")
    assert [run.status, *run.called_runs.values_list("status", flat=True)] == ["waiting", "waiting"]
    assert run.checkpoints.get().trigger == run.called_runs.get().checkpoints.get().trigger == "loop_waiting"


def test_tables_in_another_schema_are_found_by_the_search_path(
    added: Added, server: Server, database: str, settings: Settings
) -> None:
    with server.connected(database) as connection:
        connection.execute("CREATE SCHEMA agents")
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} SET SCHEMA agents")
        connection.execute(f"GRANT USAGE ON SCHEMA agents TO {READER}")
    searched = f"{server.connection(database)} options='-c search_path=agents'"
    settings.POSTGRESQL_LOCATIONS = {"support": searched}
    assert added().runs.count() == len(EXPECTED)


def test_a_location_keeps_its_uid_and_is_added_by_its_bare_name_as_well(added: Added) -> None:
    location = added()
    assert open_location("support") == location
    other = Location(path="postgresql:support", store_kind="postgresql")
    location.delete()
    other.save()
    assert other.uid == location.uid


def test_values_are_rebuilt_from_changes(
    added: Added, server: Server, database: str, warm_langgraph: WarmGraphs, tmp_path: Path
) -> None:
    printed = run_program(warm_langgraph.engine, tmp_path, PROGRAM, server.connection(database, OWNER))
    assert_as_langgraph_has_them(opened(added(), "changes"), printed)


def test_a_poll_lists_only_what_has_changed(
    added: Added, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = added()
    import_location(location)
    stored = {run.key: run.head for run in location.runs.top_level()}
    listed: list[RunList] = []
    runs = LocationReader.runs

    def noted(reader: LocationReader, *arguments: Any) -> RunList:
        listed.append(runs(reader, *arguments))
        return listed[-1]

    monkeypatch.setattr(LocationReader, "runs", noted)
    # Another transaction of the server.
    owner.execute("CREATE TABLE others (id int)")
    import_location(location)
    assert listed == []
    owner.execute(ADDED, {"from": "fan-failed", "to": "new"})
    # Older than the newest one of any thread, and nevertheless a change.
    owner.execute("DELETE FROM checkpoints WHERE checkpoint_id = %s", [stored["appr-done"]])
    owner.execute("DELETE FROM checkpoints WHERE thread_id = 'appr-waiting'")
    import_location(location)
    parts = frozenset(part_of(one) for one in ("new", "appr-done", "appr-waiting"))
    assert listed[0].parts == parts
    assert {one.key for one in listed[0].runs} == {
        one for one in (*stored, "new") if part_of(one) in parts and one != "appr-waiting"
    }
    now = {run.key: run.head for run in location.runs.top_level()}
    assert now.keys() == stored.keys() - {"appr-waiting"} | {"new"}
    changed = {one for one, head in now.items() if stored.get(one) != head}
    assert changed == {"new", "appr-done"}
    import_location(location)
    assert len(listed) == 1


def test_a_thread_with_an_unreadable_id_is_listed_at_each_poll(
    added: Added, server: Server, database: str
) -> None:
    location = added()
    with server.connected(database) as connection:
        for name in ("x" * 5000, "a\u0007b"):
            connection.execute(ADDED, {"from": "fan-failed", "to": name})
    for _poll in range(3):
        import_location(location)
        assert location.problems.count() == 2 and location.runs.top_level().count() == len(EXPECTED)
        with server.connected(database) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS others (id int)")
            connection.execute("INSERT INTO others VALUES (1)")
