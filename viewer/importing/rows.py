"""The rows of checkpoints, written in bulk: an import may bring thousands at once."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, models

from viewer.models import Checkpoint, CheckpointBody, Location
from viewer.providers.packing import Packed

# So many values in one statement.
MOST_VALUES = 500


@dataclass(frozen=True, slots=True)
class Known:
    """What a look at the location is compared with."""

    pk: int
    fingerprint: str
    state: str


def known_rows(location: Location, keys: Collection[str] | None = None) -> dict[str, Known]:
    """The stored checkpoints of a location, or those of a few keys, by key."""
    rows = Checkpoint.objects.filter(location=location).order_by()
    if keys is not None:
        rows = rows.filter(key__in=keys)
    found = rows.values_list("key", "pk", "fingerprint", "state")
    return {
        key: Known(pk, fingerprint, state) for key, pk, fingerprint, state in found.iterator(chunk_size=5000)
    }


def mark_states(location: Location, keys: Sequence[str], state: Checkpoint.State) -> int:
    """Give the checkpoints with these keys another state. How many had one that differs."""
    rows = Checkpoint.objects.filter(location=location).exclude(state=state)
    return sum(rows.filter(key__in=some).update(state=state) for some in in_slices(keys))


def in_slices(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The values, so many at a time as one statement takes."""
    return (values[at : at + MOST_VALUES] for at in range(0, len(values), MOST_VALUES))


def next_key() -> int:
    """The primary key that the next new checkpoint gets. Only inside a transaction that writes."""
    return int(Checkpoint.objects.aggregate(last=models.Max("pk", default=0))["last"]) + 1


@dataclass(slots=True)
class Standing:
    """Where a checkpoint hangs: the settled columns of its row."""

    run_id: int
    parent_id: int | None
    edge: str
    lane: int
    row: int
    is_branch_head: bool


def insert(location: Location, new: Sequence[tuple[int, Packed, Standing]]) -> None:
    """Store checkpoints that were not there, parents before children, with their bodies."""
    _execute_many(
        _insert_statement(Checkpoint, _COLUMNS),
        [
            (pk, location.pk, read.key, Checkpoint.State.PRESENT.value, *_told(read), *_settled(standing))
            for pk, read, standing in new
        ],
    )
    _execute_many(_insert_statement(CheckpointBody, _BODY_COLUMNS), [_body(pk, read) for pk, read, _ in new])


def overwrite(read_again: Sequence[tuple[int, Packed]]) -> None:
    """Store what was read again of checkpoints that are there."""
    columns = ["state", *_TOLD]
    _execute_many(
        _update_statement(Checkpoint, columns),
        [(Checkpoint.State.PRESENT.value, *_told(read), pk) for pk, read in read_again],
    )
    _execute_many(
        _update_statement(CheckpointBody, list(_BODY_COLUMNS[1:])),
        [(*_body(pk, read)[1:], pk) for pk, read in read_again],
    )


def move(moved: Sequence[tuple[int, Standing]]) -> None:
    """Give checkpoints that are there another standing."""
    _execute_many(
        _update_statement(Checkpoint, list(_SETTLED)), [(*_settled(standing), pk) for pk, standing in moved]
    )


_TOLD = (
    *(
        "fingerprint",
        "size",
        "checkpoint_id",
        "parent_checkpoint_id",
        "run_key",
        "branch",
        "trigger",
        "subject",
        "created_at",
    ),
    *("engine_version", "entity", "name", "tasks_done", "tasks_total", "event_count", "tokens"),
)
_SETTLED = ("run_id", "parent_id", "edge", "lane", "row", "is_branch_head")
_COLUMNS = ("id", "location_id", "key", "state", *_TOLD, *_SETTLED)
_BODY_COLUMNS = ("checkpoint_id", "data", "event_ids", "calls")


def _told(read: Packed) -> tuple[Any, ...]:
    """The columns that the checkpoint itself tells, no longer than they may be."""
    snapshot = read.snapshot
    return (
        snapshot.fingerprint,
        snapshot.size,
        snapshot.checkpoint_id[:300],
        (snapshot.parent_id or "")[:300],
        snapshot.run_key[:200],
        snapshot.branch[:300],
        snapshot.trigger[:100],
        snapshot.subject[:300],
        _moment(snapshot.created_at),
        snapshot.engine_version[:50],
        snapshot.entity,
        snapshot.name[:300],
        snapshot.tasks_done,
        snapshot.tasks_total,
        read.event_count,
        read.tokens,
    )


def _settled(standing: Standing) -> tuple[Any, ...]:
    return (
        standing.run_id,
        standing.parent_id,
        standing.edge,
        standing.lane,
        standing.row,
        standing.is_branch_head,
    )


def _body(pk: int, read: Packed) -> tuple[Any, ...]:
    return pk, read.data, read.event_ids, json.dumps(read.calls)


def _moment(at: datetime | None) -> Any:
    return None if at is None else connection.ops.adapt_datetimefield_value(at)


def _insert_statement(model: type[models.Model], columns: Sequence[str]) -> str:
    quoted = ", ".join(map(connection.ops.quote_name, columns))
    places = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {connection.ops.quote_name(model._meta.db_table)} ({quoted}) VALUES ({places})"  # noqa: S608


def _update_statement(model: type[models.Model], columns: Sequence[str]) -> str:
    changes = ", ".join(f"{connection.ops.quote_name(column)} = %s" for column in columns)
    table, key = model._meta.db_table, model._meta.pk
    assert key is not None, "Every model has a primary key."
    quote, key_column = connection.ops.quote_name, str(key.column)
    return f"UPDATE {quote(table)} SET {changes} WHERE {quote(key_column)} = %s"  # noqa: S608


def _execute_many(statement: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)
