"""LangGraph's tables in a PostgreSQL database, opened to read them.

Imported only in a reader process, since it loads libpq.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.super_steps import mapping
from viewer.engines.langgraph.tables import MAX_METADATA_BYTES, CheckpointKey, Key, ThreadRow, postgresql
from viewer.engines.langgraph.tables.postgresql import CHECKPOINTS, METADATA, PostgresqlRows
from viewer.engines.langgraph.threads import CHECKPOINT_COLUMNS, WRITE_COLUMNS, StoredCheckpoint
from viewer.stores.postgresql import PostgresqlDatabase
from viewer.stores.protocol import LocationUnreadable, Unavailable, Unreadable, too_large

_NEEDED = {
    "checkpoints": CHECKPOINT_COLUMNS,
    "checkpoint_writes": WRITE_COLUMNS | {"blob"},
    "checkpoint_blobs": frozenset({"thread_id", "checkpoint_ns", "channel", "type", "blob"}),
}
Blob = tuple[str, str, int | None, bytes | None]


class PostgresqlTables(PostgresqlDatabase):
    """``Tables`` of a database: ``checkpoints``, ``checkpoint_blobs`` and ``checkpoint_writes``."""

    rows: "ReadableRows"

    def read_schema(self) -> None:
        """Find the tables and check their columns. Raises LocationUnreadable."""
        self.find_tables(postgresql.TABLES)
        columns = {table: self.columns_of(table) for table in postgresql.TABLES}
        for table in postgresql.TABLES:
            if not columns[table] >= _NEEDED[table]:
                raise LocationUnreadable("langgraph.columns_missing", table=table)
        self.expressions = postgresql.expressions_for(columns)
        self.rows = ReadableRows(self, has_last_only="checkpoint_id" not in columns["checkpoints"])

    @property
    def finds_appended(self) -> bool:
        """Whether rows are only added. The shallow savers replace them."""
        return not self.rows.has_last_only

    def changed_threads(self, since: Mapping[str, str]) -> tuple[Iterable[ThreadRow], frozenset[str]]:
        """The threads of the parts whose digests differ from these, and these parts."""
        return self.rows.changed_threads(since)

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with the values of its channels from both tables. Raises Unreadable."""
        found = self.row(lambda: self.rows.checkpoint(key, max_bytes))
        if found is None:
            raise Unavailable("store.row_vanished")
        parent_id, size, text = found
        metadata = next(iter(self.rows.metadata(key.thread, [key[1:]]).values()), None)
        if text is None:
            raise too_large(size, self.limits)
        decoder = decoder or Decoder(self.limits)
        body = decoder.value("json", text.encode())
        if isinstance(body, dict):
            versions = mapping(body.get("channel_versions"))
            values, size_of_values = self._values(key, versions, max_bytes - size, decoder)
            # Since 0.6, the checkpoint itself has small values, and placeholders for the other values.
            body["channel_values"] = {**mapping(body.get("channel_values")), **values}
            size += size_of_values
            if body.get("pending_sends") == [] and parent_id:
                # Until 0.4, what a node sent is only among the writes of the checkpoint before.
                parent = key._replace(checkpoint_id=parent_id)
                body["pending_sends"] = [
                    decoder.value_or_placeholder(kind, blob, blob_size or 0)
                    for kind, blob_size, blob in self.rows.sends(parent, max_bytes - size)
                ]
        # Without a text, it is too large or damaged.
        return StoredCheckpoint(parent_id, size, body, b"" if metadata is None else metadata.encode())

    def _values(
        self, key: CheckpointKey, versions: Mapping[str, Any], budget: int, decoder: Decoder
    ) -> tuple[dict[str, Any], int]:
        """The values in ``checkpoint_blobs`` by channel, and their size in bytes.

        Values beyond the budget are opaque.
        """
        values, total = dict[str, Any](), 0
        for channel, kind, size, blob in self.rows.blobs(key, versions, budget):
            values[channel] = decoder.value_or_placeholder(kind, blob, size or 0)
            total += len(blob or b"")
        return values, total


class ReadableRows(PostgresqlRows):
    """The rows of a database, of which some may have values that the server cannot read."""

    def __init__(self, database: PostgresqlDatabase, *, has_last_only: bool) -> None:
        super().__init__(database.query, has_last_only=has_last_only)
        self._database = database

    def _checkpoints(self, statement: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        try:
            return self._database.row(lambda: super(ReadableRows, self)._checkpoints(statement, values))
        except Unreadable:
            without = CHECKPOINTS.replace(METADATA, "NULL")
            found = self._all(statement.replace(CHECKPOINTS, without), *values)
            texts = self.metadata(values[0], [(namespace, own_id) for namespace, own_id, *_others in found])
            return [(*row[:-1], texts.get((row[0], row[1]))) for row in found]

    def metadata(
        self, thread: str, keys: Sequence[Key], max_bytes: int = MAX_METADATA_BYTES
    ) -> Mapping[Key, str | None]:
        """The metadata of these checkpoints, without those that the server cannot read."""
        try:
            return self._database.row(lambda: super(ReadableRows, self).metadata(thread, keys, max_bytes))
        except Unreadable:
            half = len(keys) // 2
            if not half:
                return {}
            parts = keys[:half], keys[half:]
            return {
                key: text for part in parts for key, text in self.metadata(thread, part, max_bytes).items()
            }

    def blobs(self, key: CheckpointKey, versions: Mapping[str, Any], budget: int | None = None) -> list[Blob]:
        """As in ``PostgresqlRows``. Values that the server cannot read are None."""
        try:
            return self._database.row(lambda: super(ReadableRows, self).blobs(key, versions, budget))
        except Unreadable:
            return list(self._readable_blobs(key, versions, budget or 0))

    def _readable_blobs(self, key: CheckpointKey, versions: Mapping[str, Any], budget: int) -> Iterator[Blob]:
        """The rows of ``blobs``, each read alone. Those that the server cannot read have no value."""
        read = super().blobs
        for channel, version in versions.items():
            for most in (max(budget, 0), -1):
                try:
                    found = self._database.row(partial(read, key, {channel: version}, most))
                except Unreadable:
                    continue
                budget -= sum(len(row[-1] or b"") for row in found)
                yield from found
                break

    def _writes(self, key: CheckpointKey, most: int, limit: int | None) -> Sequence[tuple[Any, ...]]:
        """The values of the smallest writes are read, up to the first that the server cannot read."""
        read = partial(super()._writes, key, limit=limit)
        try:
            return self._database.row(partial(read, most))
        except Unreadable:
            readable = read(-1)
        sizes = sorted({row[5] for row in readable if row[5] is not None and row[5] <= most})
        while sizes:
            middle = len(sizes) // 2
            try:
                readable = self._database.row(partial(read, sizes[middle]))
                sizes = sizes[middle + 1 :]
            except Unreadable:
                sizes = sizes[:middle]
        return readable
