"""Finds what was appended to a thread in a SQLite file, without reading its other rows again."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from viewer.engines.langgraph.tables.protocol import MAX_APPENDED, CheckpointRow
from viewer.stores.sqlite.file import text_of

# The most bytes of ids and namespaces that are compared.
MAX_COMPARED_BYTES = 16 * 1024 * 1024
_BYTES = """
    SELECT total(octet_length(checkpoint_ns) + octet_length(checkpoint_id)
        + coalesce(octet_length(parent_checkpoint_id), 0))
    FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ?
"""
# A row that is replaced gets another rowid.
_CHECKPOINTS = """
    SELECT CAST(group_concat(line, char(10)) AS BLOB) FROM (
        SELECT checkpoint_ns || ' ' || checkpoint_id || ' ' || coalesce(parent_checkpoint_id, '') || ' '
            || coalesce(octet_length(checkpoint), -1) || ' ' || coalesce(octet_length(metadata), -1)
            || ' ' || {rowid} AS line
        FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ? ORDER BY checkpoint_ns, checkpoint_id
    )
"""
_WRITES = """
    SELECT count(*), total({rowid}), total(idx) FROM writes
    WHERE thread_id = ? AND checkpoint_id <= ?
        AND checkpoint_id NOT IN (SELECT value FROM json_each(?))
"""
_AFTER = f"""
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_id > ? ORDER BY checkpoint_ns, checkpoint_id
    LIMIT {MAX_APPENDED + 1}
"""  # noqa: S608
_FIRST = """
    SELECT CAST(min(checkpoint_id) AS BLOB) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
"""
_WITH_KEYS = """
    AND (checkpoint_ns, checkpoint_id) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
    )
"""


class _Tables(Protocol):
    """What is used of ``SqliteTables``."""

    @property
    def rowids(self) -> tuple[str, str]: ...

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def some_checkpoints(self, thread: str, condition: str, *values: str) -> Iterable[CheckpointRow]: ...

    def some_tasks(
        self, thread: str, condition: str, *values: str
    ) -> Iterable[tuple[str, str, str, str, int]]: ...


class SqliteAppendedRows:
    """The implementation of ``AppendedRows`` for the tables of a file."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """As in ``AppendedRows``."""
        ((size,),) = self._tables.query(_BYTES, thread, last)
        if size > MAX_COMPARED_BYTES:
            return ""
        of_checkpoints, of_writes = self._tables.rowids
        ((lines,),) = self._tables.query(_CHECKPOINTS.format(rowid=of_checkpoints), thread, last)
        writes = self._tables.query(_WRITES.format(rowid=of_writes), thread, last, json.dumps(heads))
        return hashlib.sha256(repr(writes).encode() + (lines or b"")).hexdigest()

    def ids_after(self, thread: str, last: str) -> list[tuple[str, str]]:
        """As in ``AppendedRows``."""
        found = self._tables.query(_AFTER, thread, last)
        return [(text_of(namespace), text_of(own_id)) for namespace, own_id in found]

    def checkpoints(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[CheckpointRow]:
        """As in ``AppendedRows``."""
        return self._tables.some_checkpoints(thread, _WITH_KEYS, json.dumps(keys))

    def tasks(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str, str, str, int]]:
        """As in ``AppendedRows``."""
        return self._tables.some_tasks(thread, _WITH_KEYS, json.dumps(keys))

    def first_id(self, thread: str, namespace: str) -> str:
        """As in ``AppendedRows``."""
        return text_of(self._tables.query(_FIRST, thread, namespace)[0][0])
