"""Hostile rows: nothing of them is imported, called or opened, and each says what is wrong."""

import os
import pickle
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from django.test import Client

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.databases import TABLES, Database, extension, packed
from viewer.importing import NotReadable, UnknownLocation, body_of, import_location, open_location
from viewer.models import Location

pytestmark = pytest.mark.django_db


class Runs:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """A file that code in a row would create. It does not exist afterwards."""
    path = tmp_path / "code-was-run"
    yield path
    assert not path.exists()


@pytest.fixture
def database(tmp_path: Path) -> Database:
    (tmp_path / "store").mkdir()
    return Database(tmp_path / "store" / "threads.db")


def location_of(database: Database) -> Location:
    return imported_location(database.path)


def pages(client: Client, location: Location) -> str:
    """Every tab of every checkpoint of the thread ``t``: the first as a page, the others as parts of it."""
    run = opened(location, "t")
    html = client.get(location.get_absolute_url()).content.decode()
    for row in run.checkpoints.all():
        for tab in ("state", "messages", "writes", "next", "metadata"):
            headers = {} if tab == "state" else {"HX-Request": "true", "HX-Target": "detail"}
            selected = {"at": row.checkpoint_id, "tab": tab}
            page = client.get(run.get_absolute_url(), selected, headers=headers)
            assert page.status_code == 200
            html += page.content.decode()
    return html


@pytest.mark.parametrize("code", range(8))
def test_a_named_class_is_shown_and_neither_imported_nor_called(
    database: Database, marker: Path, reader: Client, code: int
) -> None:
    argument: Any = f"touch {marker}"
    fields = {0: argument, 1: [argument], 2: {"command": argument}, 3: argument}.get(
        code, {"command": argument}
    )
    database.add(0, packed({"value": extension(code, "os", "system", fields, "system")}))
    database.write(0, 0, "value", ormsgpack.packb(extension(code, "subprocess", "run", fields, "run")))
    html = pages(reader, location_of(database))
    if code < 6:
        assert "system" in html


@pytest.mark.parametrize("kind", ["pickle", "msgpack+aes", "json+aes", "unheard-of"])
def test_a_pickled_or_encrypted_state_is_shown_as_opaque(
    database: Database, marker: Path, reader: Client, kind: str
) -> None:
    body = pickle.dumps({"channel_values": Runs(marker)})
    database.add(0, body, kind)
    database.write(0, 0, "value", body, kind)
    html = pages(reader, location_of(database))
    assert ("is pickled" if kind == "pickle" else "is encrypted") in html


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\xc7\x05\x05abcde",
        ormsgpack.packb([1, 2]),
        ormsgpack.packb(None),
        packed({}, channel_values=[1], versions_seen="x", channel_versions=None),
        packed({}, pending_sends={"a": 1}, v="new"),
        b"\x91" * 5_000 + b"\xc0",
        "a text",
        12,
        None,
    ],
    ids=lambda body: repr(body)[:20],
)
def test_a_broken_checkpoint_is_listed_and_its_neighbours_are_shown(
    database: Database, reader: Client, body: Any
) -> None:
    database.add(0, packed({"value": "before"}))
    database.add(1, body)
    database.add(2, packed({"value": "afterwards"}))
    html = pages(reader, location_of(database))
    assert "before" in html and "afterwards" in html


def test_deep_nesting_is_refused_with_its_reason(database: Database, reader: Client) -> None:
    deep: Any = "x"
    for _level in range(300):
        deep = extension(0, "builtins", "set", [deep])
    database.add(0, packed({"value": deep}))
    assert "nested too deeply" in pages(reader, location_of(database))
    with pytest.raises(NotReadable, match="nested too deeply"):
        body_of(opened(Location.objects.get(), "t").checkpoints.get())


def test_a_huge_checkpoint_is_refused_with_its_reason(
    database: Database, reader: Client, settings: Any
) -> None:
    settings.CHECKPOINT_MAX_BYTES = 100_000
    database.add(0, packed({"value": "x" * 200_000}))
    database.write(0, 0, "value", ormsgpack.packb("y" * 200_000))
    assert "The limit is 100,000" in pages(reader, location_of(database))


@pytest.mark.parametrize(
    "metadata",
    [None, b"", b"{", b"[]", b'{"step": "x"}', b'{"source": 1}', b'{"parents": {"": 1}}', 7, "\ud800"],
)
def test_any_metadata_is_shown(database: Database, reader: Client, metadata: Any) -> None:
    if metadata == "\ud800":
        metadata = b"\xed\xa0\x80"
    database.add(0, packed({"value": 1}), metadata=metadata)
    pages(reader, location_of(database))


def test_ids_of_any_kind_are_listed_or_named_as_a_problem(database: Database, reader: Client) -> None:
    for thread in (
        "a/b/c",
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "x" * 400,
        "é",
        "a\nb",
        5,
        b"\xff\xfe",
    ):
        database.add(0, packed({"value": 1}), thread_id=thread)
    location = location_of(database)
    assert location.runs.count() == 6 and location.problems.count() == 2
    for key in location.runs.values_list("key", flat=True):
        run = opened(location, key)
        for row in run.checkpoints.all():
            assert body_of(row)["checkpoint"]["channel_values"] == {"value": 1}
        html = reader.get(run.get_absolute_url()).content.decode()
        assert "<script>alert" not in html


def test_parents_in_a_circle_end(database: Database, reader: Client) -> None:
    first, second = database.add(0, packed({})), database.add(1, packed({}))
    database.connection.execute(
        "UPDATE checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?", [second, first]
    )
    pages(reader, location_of(database))


@pytest.mark.parametrize(
    "tables",
    [
        "CREATE TABLE checkpoints (thread_id, checkpoint_id); CREATE TABLE writes (thread_id);",
        f"{TABLES} ALTER TABLE checkpoints RENAME TO real; CREATE VIEW checkpoints AS SELECT * FROM real;",
        f"{TABLES} DROP TABLE writes; CREATE VIEW writes AS SELECT * FROM checkpoints;",
    ],
    ids=["columns missing", "a view called checkpoints", "a view called writes"],
)
def test_other_tables_are_no_threads(tmp_path: Path, tables: str) -> None:
    database = sqlite3.connect(tmp_path / "other.db")
    database.executescript(tables)
    database.close()
    try:
        location = open_location(tmp_path / "other.db")
    except UnknownLocation:
        return
    assert import_location(location).read_error and not location.runs.exists()


def test_a_database_without_task_paths_is_read(tmp_path: Path, reader: Client) -> None:
    old = Database(tmp_path / "old.db", TABLES.replace("task_path TEXT NOT NULL DEFAULT '',", ""))
    old.add(0, packed({"value": 1, "branch:to:node": None}, channel_versions={"branch:to:node": 2}))
    old.connection.execute(
        "INSERT INTO writes VALUES ('t', '', ?, 'task', -3, '__interrupt__', 'null', NULL)",
        [opened(location_of(old), "t").checkpoints.get().checkpoint_id],
    )
    location = Location.objects.get()
    import_location(location)
    assert opened(location, "t").checkpoints.get().units == [["node", "waiting"]]


def test_nothing_connects(database: Database, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("A connection was opened.")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    database.add(0, packed({"value": extension(5, "httpx", "get", {"url": "http://127.0.0.1:9"}, "get")}))
    pages(reader, location_of(database))


def test_a_thread_that_takes_too_long_leaves_the_others_readable(
    database: Database, reader: Client, settings: Any
) -> None:
    with database.connection:
        database.connection.execute("BEGIN")
        for number in range(3_000):
            database.add(number, packed({"value": number}), thread_id="long")
        database.add(3_001, packed({"value": "short"}))
    location = location_of(database)
    settings.CHECKPOINT_MAX_SECONDS = 0.02
    html = reader.get(location.runs.get(key="long").get_absolute_url()).content.decode()
    assert "cannot be read" in html
    location.refresh_from_db()
    assert location.read_error is None
    settings.CHECKPOINT_MAX_SECONDS = 5
    assert opened(location, "t").checkpoint_count == 1 and opened(location, "long").checkpoint_count == 3_000
