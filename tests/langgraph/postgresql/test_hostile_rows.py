"""Crafted rows of a PostgreSQL database: none runs code, and their neighbours stay readable."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from pytest_django import Settings

from tests.langgraph.conftest import opened
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Location
from viewer.records.bodies import body_of, stored_contents

Added = Callable[[], Location]
Owner = Connection[Any]
OWN_ID = "1f1e53da-ffff-6728-8000-89ab32d363d6"


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def store(
    connection: Connection[Any], thread: str, checkpoint: Any, blobs: dict[str, tuple[str, bytes]]
) -> None:
    """Insert a thread with one checkpoint and the values of its channels."""
    connection.execute(
        "INSERT INTO checkpoints VALUES (%s, '', %s, NULL, NULL, %s, %s)",
        (thread, OWN_ID, Jsonb(checkpoint), Jsonb({"source": "loop", "step": 0})),
    )
    for channel, (kind, data) in blobs.items():
        connection.execute(
            "INSERT INTO checkpoint_blobs VALUES (%s, '', %s, '1', %s, %s)", (thread, channel, kind, data)
        )


def only_row(location: Location, thread: str) -> Checkpoint:
    (row,) = opened(location, thread).checkpoints.select_related("location")
    return row


def test_values_that_would_run_code_stay_opaque(added: Added, owner: Owner, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    call = ormsgpack.packb(["pathlib", "Path", str(touched), "touch"])
    blobs = {
        "pickled": ("pickle", pickle.dumps(Touch(touched))),
        "called": ("msgpack", ormsgpack.packb(ormsgpack.Ext(3, call))),
        "encrypted": ("msgpack+aes", b"\0" * 40),
        "damaged": ("msgpack", b"\xc1\xff"),
        "whole": ("msgpack", ormsgpack.packb("fine")),
    }
    checkpoint = {"v": 4, "id": OWN_ID, "channel_values": {}, "channel_versions": dict.fromkeys(blobs, "1")}
    store(owner, "crafted", checkpoint, blobs)
    values = body_of(only_row(added(), "crafted"))["checkpoint"]["channel_values"]
    assert values["pickled"]["__opaque__"] == "pickled" and values["encrypted"]["__opaque__"] == "encrypted"
    assert values["damaged"]["__opaque__"] == "unknown" and values["whole"] == "fine"
    assert values["called"]["__type__"] == "pathlib.Path"
    assert not touched.exists()


@pytest.mark.parametrize(
    "checkpoint",
    [
        [],
        "text",
        None,
        {"channel_versions": [1], "channel_values": "x"},
        {"channel_versions": {"a": {"b": [1]}, "": None}, "versions_seen": 3},
    ],
)
def test_a_checkpoint_of_another_shape_hides_no_other(added: Added, owner: Owner, checkpoint: Any) -> None:
    store(owner, "crafted", checkpoint, {})
    location = added()
    assert location.runs.count() == 10
    stored_contents(only_row(location, "crafted"))
    assert opened(location, "fan-failed").checkpoint_count == 3


def test_a_value_beyond_the_limit_is_left_out_and_a_deep_checkpoint_is_refused(
    added: Added, owner: Owner, settings: Settings
) -> None:
    settings.CHECKPOINT_MAX_BYTES = 20_000
    blobs = {"small": ("bytes", b"1" * 100), "large": ("bytes", b"1" * 50_000)}
    checkpoint = {"v": 4, "id": OWN_ID, "channel_values": {}, "channel_versions": dict.fromkeys(blobs, "1")}
    deep: Any = 1
    for _level in range(500):
        deep = [deep]
    store(owner, "large", checkpoint, blobs)
    store(owner, "deep", {"id": OWN_ID, "channel_values": {"deep": deep}}, {})
    location = added()
    values = body_of(only_row(location, "large"))["checkpoint"]["channel_values"]
    assert values["large"] == {"__opaque__": "unknown", "encoding": "too large", "size": 50_000}
    assert values["small"] == {"__type__": "bytes", "size": 100}
    with pytest.raises(NotReadable, match="nested too deeply"):
        body_of(only_row(location, "deep"))


def test_millions_of_objects_are_refused_where_they_are(added: Added, owner: Owner) -> None:
    wide = ormsgpack.packb({"w": [{}] * 3_000_000})
    row = {"v": 4, "id": OWN_ID, "channel_values": {}, "channel_versions": {"wide": "1", "small": "1"}}
    small = ormsgpack.packb("fine")
    store(owner, "blob", row, {"wide": ("msgpack", wide), "small": ("msgpack", small)})
    for index, value in enumerate((wide, small)):
        owner.execute(
            "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, blob) VALUES ('blob', '', %s, 'task', %s, 'a', 'msgpack', %s)",
            (OWN_ID, index, value),
        )
    store(owner, "inline", {"v": 4, "id": OWN_ID}, {})
    owner.execute(
        "UPDATE checkpoints SET checkpoint = checkpoint || %s::jsonb WHERE thread_id = 'inline'",
        ('{"channel_values": {"w": [' + "{}," * 2_000_000 + "1]}}",),
    )
    store(owner, "noted", {"v": 4, "id": OWN_ID, "channel_values": {"topic": "owls"}}, {})
    owner.execute(
        "UPDATE checkpoints SET metadata = metadata || %s::jsonb WHERE thread_id = 'noted'",
        ('{"w": [' + "[]," * 3_000_000 + '1], "step": ' + "9" * 4_000 + "}",),
    )
    location = added()
    assert location.runs.count() == 12
    body = body_of(only_row(location, "blob"))
    assert body["checkpoint"]["channel_values"]["small"] == body["writes"][1]["value"] == "fine"
    for refused in (body["checkpoint"]["channel_values"]["wide"], body["writes"][0]["value"]):
        assert refused["encoding"] == "too large"
    with pytest.raises(NotReadable, match="more than 448 MB"):
        body_of(only_row(location, "inline"))
    noted = body_of(only_row(location, "noted"))
    assert noted["checkpoint"]["channel_values"] == {"topic": "owls"} and "__opaque__" in noted["metadata"]
    assert opened(location, "fan-failed").checkpoint_count == 3


def test_ids_with_secrets_and_unprintable_ids_are_not_shown(added: Added, owner: Owner) -> None:
    key = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"
    store(owner, f"user {key}", {"id": OWN_ID, "channel_values": {"topic": "owls"}}, {})
    store(owner, "line\nbreak", {"id": OWN_ID}, {})
    location = added()
    (redacted,) = location.runs.filter(key__startswith="user ")
    assert key not in redacted.key
    body = body_of(only_row(location, redacted.key))
    assert body["checkpoint"]["channel_values"] == {"topic": "owls"} and key not in str(body)
    assert [problem.kind for problem in location.problems.all()] == ["broken"]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("checkpoints", "checkpoint"),
        ("checkpoints", "metadata"),
        ("checkpoint_blobs", "blob"),
        ("checkpoint_writes", "blob"),
    ],
)
def test_a_damaged_value_hides_nothing_else(added: Added, owner: Owner, table: str, column: str) -> None:
    noise = os.urandom(20_000).hex()
    row: dict[str, Any] = {"v": 4, "id": OWN_ID, "channel_versions": {"a": "1", "b": "1"}}
    row["channel_values"] = {"c": noise if column == "checkpoint" else "fine"}
    large = ormsgpack.packb(noise)
    store(owner, "damaged", row, {"a": ("msgpack", large), "b": ("msgpack", ormsgpack.packb("fine"))})
    store(owner, "whole", {"v": 4, "id": OWN_ID, "channel_values": {"topic": "owls"}}, {})
    owner.execute(
        "UPDATE checkpoints SET metadata = %s WHERE thread_id = 'damaged'",
        (Jsonb({"source": "loop", "step": 0, "note": noise if column == "metadata" else ""}),),
    )
    for index, value in enumerate((large, ormsgpack.packb("fine"))):
        owner.execute(
            "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, blob) VALUES ('damaged', '', %s, 'task', %s, 'a', 'msgpack', %s)",
            (OWN_ID, index, value),
        )
    damage(owner, table)
    location = added()
    assert location.runs.count() == 11
    assert body_of(only_row(location, "whole"))["checkpoint"]["channel_values"] == {"topic": "owls"}
    damaged = only_row(location, "damaged")
    if column == "checkpoint":
        with pytest.raises(NotReadable, match="could not execute a statement"):
            body_of(damaged)
        return
    body = body_of(damaged)
    assert body["checkpoint"]["channel_values"]["b"] == body["writes"][1]["value"] == "fine"
    unreadable = {
        "metadata": body["metadata"],
        "checkpoint_blobs": body["checkpoint"]["channel_values"]["a"],
        "checkpoint_writes": body["writes"][0]["value"],
    }
    assert "__opaque__" in unreadable[column if column == "metadata" else table]


def damage(owner: Owner, table: str) -> None:
    """Remove what a table stores of its newest long value elsewhere, as a damaged disk would."""
    ((stored,),) = owner.execute(
        "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = %s::regclass", (table,)
    ).fetchall()
    owner.execute("SET allow_system_table_mods = on")
    kind = "UPDATE pg_class SET relkind = %s WHERE oid = %s::regclass"
    # Such a table cannot be changed otherwise.
    owner.execute(kind, ("r", stored))
    owner.execute(f"DELETE FROM {stored} WHERE chunk_id = (SELECT max(chunk_id) FROM {stored})")
    owner.execute(kind, ("t", stored))
