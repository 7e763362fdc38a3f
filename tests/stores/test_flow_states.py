"""States of flows with ``@persist`` are read as checkpoints. Other rows and tables are refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import checkpoint_site  # noqa: F401 - one recent SQLite for the whole process
from tests.flow_states import SCHEMA, add_state, states_at
from tests.real_stores import hashes_below
from tests.stores.test_sqlite import opened, read_all
from viewer.stores.protocol import Entry, LocationUnreadable, Packed, ReadLimits, Snapshot


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """A store with two flows of three states each, interleaved."""
    return states_at(tmp_path / "flow_states.db")


def snapshots(path: Path) -> list[Snapshot]:
    with opened(path) as store:
        entries = [one for one in store.entries() if isinstance(one, Entry)]
        found = [one.snapshot for one in store.read_all(entries, 1) if isinstance(one, Packed)]
    return sorted(found, key=lambda one: int(one.key))


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";".join(statements))


def test_each_state_is_a_checkpoint_after_the_state_before(states: Path) -> None:
    before = hashes_below(states.parent)
    with opened(states) as store:
        assert store.store_kind() == "states"
    found = snapshots(states)
    assert [one.run_key for one in found] == ["first", "second"] * 3
    assert [one.subject for one in found[::2]] == ["choose", "write", "check"]
    assert [one.parent_id for one in found] == [None, None, *(one.checkpoint_id for one in found[:4])]
    assert found[4].checkpoint_id == "20261120T100400_00000005" and found[4].units_done == 3
    assert {(one.entity, one.branch, one.trigger) for one in found} == {
        ("flow_state", "main", "method_execution_finished")
    }
    assert hashes_below(states.parent) == before


def test_the_log_of_a_writer_is_read(states: Path) -> None:
    with closing(sqlite3.connect(states)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        add_state(writer, "third", "choose", {"id": "third"})
        writer.commit()
        assert len(snapshots(states)) == 7


@pytest.mark.parametrize(
    "state",
    ["", "[1]", '"text"', "{", '{"a": 1}]}', '{"a": 1}, {"b": 2}', "[" * 5000, '{"a":' * 5000, "null"],
)
def test_a_state_that_is_no_object_breaks_only_its_own_row(states: Path, state: str) -> None:
    with closing(sqlite3.connect(states)) as connection:
        add_state(connection, "first", "write", state)
        connection.commit()
    read, problems = read_all(states)
    assert (len(read), list(problems)) == (6, ["7"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("method_name", "<script>alert(1)</script>"),
        ("method_name", b"\xff\xfe"),
        ("method_name", 7),
        ("timestamp", "yesterday"),
        ("timestamp", 1.5),
        ("timestamp", "9999-99-99T99:99:99"),
    ],
)
def test_odd_columns_are_read(states: Path, column: str, value: object) -> None:
    with closing(sqlite3.connect(states)) as connection:
        connection.execute(f"UPDATE flow_states SET {column} = ? WHERE id = 6", (value,))
        connection.commit()
    assert len(snapshots(states)) == 6


@pytest.mark.parametrize("flow", ["", "a\nb", "x" * 301, b"\xff", 5])
def test_a_row_without_a_usable_id_is_named(states: Path, flow: object) -> None:
    with closing(sqlite3.connect(states)) as connection:
        connection.execute("UPDATE flow_states SET flow_uuid = ? WHERE id = 6", (flow,))
        connection.commit()
    read, problems = read_all(states)
    assert len(read) + len(problems) == 6 and len(read) >= 5


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("CREATE TABLE flow_states (id INTEGER, name TEXT)", "crewai.state_columns_missing"),
        (
            "CREATE VIEW flow_states AS SELECT 'f' flow_uuid, 'm' method_name, '{}' state_json",
            "store.table_not_plain",
        ),
        (
            "CREATE TABLE flow_states (flow_uuid TEXT, method_name TEXT,"
            " state_json TEXT AS (upper(method_name)))",
            "crewai.state_columns_missing",
        ),
        ("CREATE TABLE pending_feedback (flow_uuid TEXT)", "store.no_table"),
    ],
)
def test_another_table_of_that_name_is_refused(tmp_path: Path, schema: str, code: str) -> None:
    path = tmp_path / "other.db"
    run_sql(path, schema)
    with opened(path) as store, pytest.raises(LocationUnreadable) as refused:
        list(store.entries())
    assert refused.value.message.code == code


def test_a_table_without_ids_and_times_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    run_sql(
        path,
        "CREATE TABLE flow_states (flow_uuid TEXT, method_name TEXT, state_json TEXT)",
        "INSERT INTO flow_states VALUES ('f', 'm', '{}'), ('f', 'n', '{\"a\": 1}')",
    )
    assert [one.checkpoint_id for one in snapshots(path)] == ["state_00000001", "state_00000002"]


def test_a_file_in_utf_16_is_refused_with_that_reason(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    row = "INSERT INTO flow_states VALUES (1, 'f', 'm', '', '{}')"
    run_sql(path, "PRAGMA encoding='UTF-16le'", SCHEMA, row)
    with opened(path) as store, pytest.raises(LocationUnreadable) as refused:
        list(store.entries())
    assert refused.value.message.code == "store.not_utf8"


def test_checkpoints_come_before_states_in_one_file(states: Path) -> None:
    run_sql(
        states,
        "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, data JSONB)",
    )
    with opened(states) as store:
        assert store.store_kind() == "sqlite"


def test_a_large_state_is_refused_and_its_neighbours_are_read(states: Path) -> None:
    with closing(sqlite3.connect(states)) as connection:
        add_state(connection, "first", "write", {"text": "x" * 200_000})
        connection.commit()
    read, problems = read_all(states, ReadLimits(max_bytes=100_000))
    assert (len(read), list(problems)) == (6, ["7"])


def test_a_damaged_file_never_raises_anything_else(states: Path) -> None:
    whole = states.read_bytes()
    for at in range(0, len(whole), 997):
        states.write_bytes(whole[:at] + b"\xff" * 200 + whole[at + 200 :])
        try:
            read_all(states)
        except LocationUnreadable:
            continue
