"""Finds what was appended to a thread in a PostgreSQL database, without reading its other rows again."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from viewer.engines.langgraph.tables.protocol import MAX_APPENDED, CheckpointRow

# An update makes another version of a row, with another transaction and position. Sums need no order.
_CHECKPOINTS = """
    SELECT count(*), sum(hashtextextended(
        concat_ws(' ', checkpoint_ns, checkpoint_id, parent_checkpoint_id, xmin, ctid), 0))::text
    FROM {checkpoints} WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s
"""
_WRITES = """
    SELECT count(*), sum(hashtextextended(concat_ws(' ', xmin, ctid), 0))::text
    FROM {checkpoint_writes}
    WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s AND checkpoint_id <> ALL(%s::text[])
"""
_AFTER = """
    SELECT checkpoint_ns, checkpoint_id FROM {checkpoints}
    WHERE thread_id = %s AND checkpoint_id COLLATE "C" > %s
    ORDER BY checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C" LIMIT %s
"""
_FIRST = """
    SELECT min(checkpoint_id COLLATE "C") FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = %s
"""
_WITH_KEYS = "AND (checkpoint_ns, checkpoint_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"


class _Tables(Protocol):
    """What is used of ``PostgresqlTables``."""

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def some_checkpoints(self, thread: str, condition: str, *values: Any) -> Iterable[CheckpointRow]: ...

    def some_tasks(
        self, thread: str, condition: str, *values: Any
    ) -> Iterable[tuple[str, str, str, str, int]]: ...


def as_stored(text: str) -> str:
    """The text without characters that PostgreSQL refuses. A text that had any equals no stored text."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class PostgresqlAppendedRows:
    """The implementation of ``AppendedRows`` for the tables of a database."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """As in ``AppendedRows``."""
        at = as_stored(thread), as_stored(last)
        checkpoints = self._tables.query(_CHECKPOINTS, *at)
        writes = self._tables.query(_WRITES, *at, [as_stored(one) for one in heads])
        return hashlib.sha256(repr((checkpoints, writes)).encode()).hexdigest()

    def ids_after(self, thread: str, last: str) -> list[tuple[str, str]]:
        """As in ``AppendedRows``."""
        found = self._tables.query(_AFTER, as_stored(thread), as_stored(last), MAX_APPENDED + 1)
        return [(namespace, own_id) for namespace, own_id in found]

    def checkpoints(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[CheckpointRow]:
        """As in ``AppendedRows``."""
        return self._tables.some_checkpoints(thread, _WITH_KEYS, *_columns(keys))

    def tasks(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str, str, str, int]]:
        """As in ``AppendedRows``."""
        return self._tables.some_tasks(thread, _WITH_KEYS, *_columns(keys))

    def first_id(self, thread: str, namespace: str) -> str:
        """As in ``AppendedRows``."""
        return self._tables.query(_FIRST, as_stored(thread), as_stored(namespace))[0][0] or ""


def _columns(keys: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    namespaces, ids = [], []
    for namespace, own_id in keys:
        namespaces.append(as_stored(namespace))
        ids.append(as_stored(own_id))
    return namespaces, ids
