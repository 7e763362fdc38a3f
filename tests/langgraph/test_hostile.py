"""Hostile rows: nothing of them is imported, called or opened, and each says what is wrong."""

import json
import os
import pickle
import socket
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import ormsgpack
import pytest
from django.db.models import CharField
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.databases import TABLES, Database, checkpoint_id, extension, packed
from tests.sharing.conftest import BROWSER
from tests.terminal import Terminal
from viewer.engines.langgraph.contents import contents_of
from viewer.engines.langgraph.decoding import memory_of_msgpack
from viewer.engines.langgraph.identifiers import NULL_TASK
from viewer.engines.langgraph.plan import units_of
from viewer.engines.langgraph.super_steps import nodes_that_ran
from viewer.engines.langgraph.tabs import comparable, info, info_lines
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host_requests import NotReadable, UnknownLocation
from viewer.models import Location, ShareLink
from viewer.presentation.export import FORMATS
from viewer.presentation.share_links import Subject, find_shared, make_link
from viewer.records.accounts import teammate
from viewer.records.bodies import body_of

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


@pytest.mark.parametrize("step", ["9" * 4_000, str(2**64), str(2**63), "-" + str(2**63), "1e999", '"x"'])
def test_a_step_that_no_column_can_hold_hides_neither_other_fields_nor_other_rows(
    database: Database, reader: Client, step: str
) -> None:
    metadata = f'{{"source": "update", "step": {step}, "parents": [1]}}'.encode()
    database.add(0, packed({"value": "before"}))
    database.add(1, packed({"value": "afterwards"}), metadata=metadata)
    database.add(2, packed({"value": "other"}), thread_id="other")
    location = location_of(database)
    html = pages(reader, location)
    assert "before" in html and "afterwards" in html
    assert opened(location, "other").checkpoint_count == 1
    last = opened(location, "t").checkpoints.latest("row")
    assert (last.trigger, last.step) == ("update_ended", None)


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


def test_no_text_is_longer_than_its_column(database: Database) -> None:
    thread, level = "x" * 200, f"{'n' * 60}:0d4d301b-d1ce-a62c-99b6-70cac0aac326"
    metadata = json.dumps({"source": "loop", "step": 1, "parents": {"": "p" * 400}}).encode()
    database.add(0, packed({"value": 1}), thread_id=thread)
    for number, namespace in enumerate(("called:1", "|".join([level] * 7)), 1):
        ids = {"thread_id": thread, "checkpoint_ns": namespace, "parent_checkpoint_id": "q" * 400}
        database.add(number, packed({"value": 1}), metadata=metadata, **ids)
    location = location_of(database)
    opened(location, location.runs.get(parent=None).key)
    assert location.runs.count() > 1
    for rows in (location.runs.all(), location.checkpoints.all(), location.problems.all()):
        for column in (one for one in rows.model._meta.fields if isinstance(one, CharField)):
            for text in rows.values_list(column.name, flat=True):
                assert len(text) <= (column.max_length or 0), column.name


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
        for number in range(10_000):
            database.add(number, packed({"value": number}), thread_id="long")
        database.add(10_001, packed({"value": "short"}))
    location = location_of(database)
    settings.CHECKPOINT_MAX_SECONDS = 0.01
    html = reader.get(location.runs.get(key="long").get_absolute_url()).content.decode()
    assert "cannot be read" in html
    location.refresh_from_db()
    assert location.read_error is None
    settings.CHECKPOINT_MAX_SECONDS = 20
    assert opened(location, "t").checkpoint_count == 1 and opened(location, "long").checkpoint_count == 10_000


def wide(count: int) -> bytes:
    """A checkpoint of few bytes with this many objects."""
    return packed({"w": [{}] * count})


# Made in the test, not when tests are collected.
MILLIONS: dict[str, Callable[[], bytes]] = {
    "3 million": lambda: wide(3_000_000),
    "6 million": lambda: wide(6_000_000),
    "lists": lambda: packed({"w": [[]] * 2_000_000}),
    "mappings": lambda: packed({"w": [{"a": 1}] * 1_000_000}),
    "extensions": lambda: packed({"w": [ormsgpack.Ext(7, b"\x01")] * 1_000_000}),
    "in an extension": lambda: packed({"w": extension(5, "a", "B", {"c": [{}] * 3_000_000})}),
    "versions": lambda: packed({}, versions_seen={f"node {number}": {} for number in range(1_500_000)}),
    "JSON": lambda: b'{"w": [' + b"{}," * 3_000_000 + b"1]}",
}


@pytest.mark.parametrize("name", MILLIONS)
def test_a_row_with_millions_of_objects_is_refused_alone(
    database: Database, reader: Client, name: str
) -> None:
    body = MILLIONS[name]()
    kind = "json" if body.startswith(b"{") else "msgpack"
    database.add(0, packed({"value": "before"}))
    database.add(1, body, kind)
    database.add(2, packed({"value": "afterwards"}))
    database.write(2, 0, "value", body, kind)
    for thread in ("a", "z"):
        database.add(3, packed({"value": "other"}), thread_id=thread)
    location = location_of(database)
    assert set(location.runs.values_list("key", "checkpoint_count")) == {("t", 3), ("a", 1), ("z", 1)}
    first, hostile, last = opened(location, "t").checkpoints.order_by("row")
    with pytest.raises(NotReadable, match="more than 448 MB"):
        body_of(hostile)
    assert "more than 448 MB" in reader.get(hostile.get_absolute_url(), follow=True).content.decode()
    refused = reader.get(reverse("checkpoint-raw", args=[hostile.pk]))
    assert refused.status_code == 404 and "more than 448 MB" in refused.content.decode()
    assert body_of(first)["checkpoint"]["channel_values"] == {"value": "before"}
    written = body_of(last)
    assert written["checkpoint"]["channel_values"] == {"value": "afterwards"}
    assert written["writes"][0]["value"]["encoding"] == "too large"
    # A known location stays up to date.
    database.add(4, packed({"value": "new"}), thread_id="a")
    assert import_location(location).read_error is None
    assert opened(location, "a").checkpoint_count == 2


def test_a_row_that_ends_a_reader_is_left_out_by_the_next(
    database: Database, reader: Client, settings: Any
) -> None:
    settings.CHECKPOINT_MAX_SECONDS = 0.4
    for number in range(3):
        database.add(number, packed({"value": number}))
    # Within the limit of memory, but not within that of time.
    database.add(3, packed({"w": [{}] * 1_200_000}))
    for number in range(50):
        database.add(number, packed({"value": "short"}), thread_id=f"thread {number}")
    location = location_of(database)
    assert location.runs.exclude(checkpoint_count=0).count() == 51
    run = opened(location, "t")
    assert run.checkpoint_count == 4
    first, *_others, hostile = run.checkpoints.order_by("row")
    assert body_of(first)["checkpoint"]["channel_values"] == {"value": 0}
    with pytest.raises(NotReadable, match=r"more than 0\.4 s"):
        body_of(hostile)


def test_the_memory_of_values_is_estimated_before_they_are_decoded() -> None:
    value: Any
    for value in (
        {},
        [],
        [[]],
        {"a": 1},
        {"a": {"b": [1]}},
        "text",
        "\U0001f600",
        1.5,
        2**40,
        b"bytes",
        None,
    ):
        data = ormsgpack.packb([value] * 50_000)
        tracemalloc.start()
        decoded = ormsgpack.unpackb(data)
        needed, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(decoded) == 50_000
        assert 0.9 * needed <= memory_of_msgpack(data, 10**9) <= 4 * needed + 1_000, value


@pytest.mark.parametrize("metadata", [b"\xff\xfe", b"{", b"", "text", b'{"a": 1e999}', b"[" * 5_000, 7])
def test_undecodable_metadata_leaves_the_rest_on_every_page_and_export(
    database: Database, reader: Client, terminal: Terminal, metadata: Any
) -> None:
    database.add(0, packed({"value": "before"}))
    database.add(1, packed({"value": "after"}), metadata=metadata)
    location = location_of(database)
    run = opened(location, "t")
    first, last = run.checkpoints.order_by("row")
    for name in FORMATS:
        exported = reader.get(reverse("run-export", args=[run.uid]), {"format": name})
        assert exported.status_code == 200
        if name in ("html", "markdown", "json"):
            text = exported.content.decode()
            assert "after" in text and ("metadata" in text) == (metadata != 7)
    sides = {"a": f"{run.uid}/{last.checkpoint_id}", "b": f"{run.uid}/{first.checkpoint_id}"}
    shared = find_shared(Subject(ShareLink.Kind.COMPARISON, urlencode(sides)))
    assert shared
    _link, token = make_link(shared, teammate("maker", "run"), days=1, unfurls=False)
    addresses = [f"{reverse('compare')}?{urlencode(sides)}", reverse("shared", args=[token])]
    addresses += [f"{reverse('compare-export')}?{urlencode({**sides, 'format': name})}" for name in FORMATS]
    for address in addresses:
        page = reader.get(address, headers={"User-Agent": BROWSER})
        # A comparison has fewer formats.
        text = page.content.decode()
        assert page.status_code == 404 or ("before" in text and "after" in text)
    names = [f"{location.path}#t/{row.checkpoint_id}" for row in (first, last)]
    assert "after" in terminal.text("info", names[1])
    # The status says that they differ.
    with pytest.raises(SystemExit) as ended:
        terminal.text("diff", *names)
    assert ended.value.code == 1 and "after" in terminal.capsys.readouterr().out


def test_channels_with_the_names_of_a_placeholder_are_compared(database: Database, reader: Client) -> None:
    named: list[dict[str, Any]] = [
        {"__opaque__": 1, "size": 2, "encoding": 3},
        {"__type__": "a.B", "fields": {}},
    ]
    for number, values in enumerate(named):
        metadata = json.dumps({"source": "loop", **values}).encode()
        database.add(number, packed(values), metadata=metadata)
        database.write(number, 0, "__opaque__", b"\x01")
    run = opened(location_of(database), "t")
    first, last = run.checkpoints.order_by("row")
    sides = {"a": f"{run.uid}/{last.checkpoint_id}", "b": f"{run.uid}/{first.checkpoint_id}"}
    assert "fields" in reader.get(reverse("compare"), sides).content.decode()
    assert "__opaque__" in reader.get(reverse("compare"), sides).content.decode()


def test_texts_that_are_not_utf_8_hide_nothing(database: Database, reader: Client) -> None:
    database.add(0, packed({"value": "before"}))
    database.write(0, 0, "value", b"\x01")
    for table, column in (
        ("checkpoints", "parent_checkpoint_id"),
        ("writes", "channel"),
        ("writes", "task_id"),
        ("writes", "type"),
    ):
        database.connection.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)", [b"\xff\xfe"])
    (row,) = opened(location_of(database), "t").checkpoints.all()
    body = body_of(row)
    assert body["checkpoint"]["channel_values"] == {"value": "before"}
    assert body["writes"][0]["channel"].startswith("\\ud")
    database.connection.execute("UPDATE checkpoints SET type = CAST(? AS TEXT)", [b"\xff\xfe"])
    body = body_of(row)
    assert body["checkpoint"]["__opaque__"] == "unknown"
    assert body["writes"][0]["channel"].startswith("\\ud")


@pytest.mark.parametrize("index", ["many", b"\xff\xfe", 1.5, -(2**63), 2**63 - 1])
def test_a_damaged_index_of_a_write_hides_nothing(database: Database, reader: Client, index: Any) -> None:
    database.add(0, packed({"value": "before"}))
    database.write(0, 0, "value", ormsgpack.packb("written"), task_id="a")
    database.write(0, 0, "value", ormsgpack.packb("also written"), task_id="b")
    for value in ("?", "CAST(? AS TEXT)"):
        database.connection.execute(f"UPDATE writes SET idx = {value} WHERE task_id = 'a'", [index])
    database.add(1, packed({"value": "after"}))
    html = pages(reader, location := location_of(database))
    assert "before" in html and "after" in html and "also written" in html
    body = body_of(opened(location, "t").checkpoints.order_by("row")[0])
    assert [write["value"] for write in body["writes"]] == ["written", "also written"]


@pytest.mark.parametrize("damaged", ["", b""])
def test_a_checkpoint_without_an_id_hides_no_other(database: Database, damaged: Any) -> None:
    database.add(0, packed({"value": "before"}))
    database.add(1, packed({"value": "after"}))
    database.connection.execute("UPDATE checkpoints SET checkpoint_id = ? WHERE rowid = 1", [damaged])
    rows = opened(location_of(database), "t").checkpoints.all()
    assert [body_of(row)["checkpoint"]["channel_values"] for row in rows] == [{"value": "after"}]


def written(task: str, index: int, channel: str, value: Any, path: str = "") -> dict[str, Any]:
    return {"task_id": task, "task_path": path, "index": index, "channel": channel, "value": value}


def object_of(name: str, fields: Any) -> dict[str, Any]:
    return {"__type__": name, "fields": fields}


def wide_documents(count: int) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Checkpoints with this many of one part, and their writes."""
    names = [f"name {number}" for number in range(count)]
    versions = dict.fromkeys(names, 1)
    pulled = [written(f"task {one}", 0, "a", 1, f"~__pregel_pull, {one}") for one in names]
    pushed = [written(f"task {one}", 0, "a", 1, f"~__pregel_push, {one:010d}, False") for one in range(count)]
    message = {"content": "x", "type": "ai", "id": "m", "tool_calls": []}
    calls = [{"name": name, "args": {}, "id": name} for name in names]
    asked = [object_of("langgraph.types.Interrupt", {"value": "?", "id": name, "ns": []}) for name in names]
    yield (
        "channels named after nodes",
        {
            "channel_values": {name: name for name in names},
            "channel_versions": versions,
            "versions_seen": {name: {name: 0} for name in names},
        },
        [],
    )
    yield "next nodes", {"channel_values": {f"branch:to:{name}": None for name in names}}, pulled
    sends = [object_of("langgraph.types.Send", [name, 1]) for name in names]
    yield (
        "sends",
        {"channel_values": {"__pregel_tasks": sends}, "versions_seen": {name: {} for name in names}},
        pushed,
    )
    for given in ([message] * count, [{**message, "tool_calls": calls}]):
        conversation = [object_of("langchain_core.messages.ai.AIMessage", one) for one in given]
        yield "messages or calls", {"channel_values": {"messages": conversation}}, []
    yield "interrupts", {}, [written("task", -3, "__interrupt__", asked)]
    answers = [written(NULL_TASK, -4, "__resume__", f"answer {name}") for name in names]
    asked_and_answered = [written("task", 0, "a", 1), written("task", -3, "__interrupt__", asked[:1])]
    yield "answers", {}, [*asked_and_answered, written("task", -4, "__resume__", names), *answers]
    yield (
        "brought",
        {},
        [written("task", -4, "__resume__", names)]
        + [written(NULL_TASK, number, "__resume__", name) for number, name in enumerate(names)],
    )


@pytest.mark.parametrize("name", [name for name, _checkpoint, _writes in wide_documents(1)])
def test_the_time_to_show_a_checkpoint_grows_with_its_size_only(name: str) -> None:
    for own, checkpoint, writes in wide_documents(10_000):
        if own != name:
            continue
        contents = contents_of(
            {
                "checkpoint_id": checkpoint_id(1),
                "checkpoint": checkpoint,
                "writes": writes,
                "metadata": {"step": 1},
            }
        )
        started = time.thread_time()
        info(contents)
        list(info_lines(contents))
        list(comparable(contents))
        units_of(contents)
        nodes_that_ran(checkpoint, checkpoint)
        # In quadratic time, each takes half a minute or more.
        assert time.thread_time() - started < 10
