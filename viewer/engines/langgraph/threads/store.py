"""Lists LangGraph's threads, then the checkpoints of one thread, and reads bodies one by one.

Imported only in a reader process, since it reads databases.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import apsw
import msgspec

from viewer.engines.langgraph import identifiers, super_steps
from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.identifiers import valid_text
from viewer.engines.langgraph.super_steps import mapping
from viewer.engines.langgraph.tables import CheckpointKey, ThreadRow, WriteRow
from viewer.engines.langgraph.tables.sqlite import SqliteRows
from viewer.engines.langgraph.threads import (
    CHECKPOINT_COLUMNS,
    WRITE_COLUMNS,
    Result,
    StoredCheckpoint,
    Tables,
)
from viewer.engines.langgraph.threads.listing import index_of, rows_of
from viewer.engines.langgraph.threads.rows import (
    ENGINE,
    IndexedRow,
    Indexer,
    calls_in,
    metadata_of,
    parents_in,
    redacted_calls,
    status_of,
)
from viewer.messages.message import UserMessage
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.stores import DatabaseFile, SaverAddress, ServerAddress, protocol
from viewer.stores.sqlite_file import row_error
from viewer.stores.sqlite_store import SqliteFile

# The most bytes of bodies that are decoded to index a thread, for facts that only bodies record.
MAX_INDEXED_BYTES = 32 * 1024 * 1024
# The most other threads that are read to find which node follows, and the most bytes of each checkpoint.
MAX_OTHERS, MAX_OTHER_BYTES = 20, 1024 * 1024
# The most bytes of heads that are decoded for the model calls in one list of runs.
MAX_LISTED_BYTES = 8 * 1024 * 1024


class Bodies:
    """Decodes the bodies of a thread for its index, up to a number of bytes."""

    def __init__(self, values: Callable[[str, IndexedRow], Mapping[str, Any]], thread: str) -> None:
        self._values, self._thread = values, thread
        self._left = MAX_INDEXED_BYTES
        self._last: tuple[IndexedRow, Mapping[str, Any]] | None = None

    def __call__(self, row: IndexedRow) -> Mapping[str, Any]:
        if self._last is not None and self._last[0] is row:
            return self._last[1]
        self._left -= row.size
        values = self._values(self._thread, row) if self._left >= 0 else {}
        self._last = (row, values)
        return values


class LangGraphStore:
    """The indexed store of a database that a checkpoint saver of LangGraph writes."""

    engine = ENGINE

    def __init__(
        self, tables: Tables, formats: Sequence[protocol.StoreFormat], known: KnownSecrets = NONE_KNOWN
    ) -> None:
        self._tables, self.formats, self.known = tables, formats, known
        self.skipped: frozenset[str] = frozenset()
        self.announce: Callable[[str], None] = lambda row: None

    @property
    def kind(self) -> Literal["sqlite", "postgresql", "saver"]:
        return self._tables.kind

    @property
    def limits(self) -> protocol.ReadLimits:
        return self._tables.limits

    def __enter__(self) -> Self:
        self._tables.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tables.__exit__()

    def abandon(self) -> None:
        """End the session of a server, which may be executing a statement."""
        self._tables.abandon()

    def mark(self) -> str:
        """A text that differs if a server's database may have changed. Raises LocationUnreadable."""
        return self._tables.mark()

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns while the tables do not change. Raises LocationUnreadable."""
        return self._tables.retried(read)

    def runs(self, limit: int | None = None, since: Mapping[str, str] | None = None) -> protocol.RunList:
        """The threads with their newest checkpoints, newest first. Raises LocationUnreadable.

        With ``since``, threads of parts that have the same digest may be left out.
        """
        found: list[tuple[str, str]] = []
        problems: list[protocol.ReadProblem] = []
        rows, parts = self.retried(lambda: self._threads(since))
        for row in rows:
            if not row.id or not row.id.isprintable():
                key, reason = f"thread {len(problems) + 1}", UserMessage("langgraph.thread_unreadable")
                problems.append(protocol.ReadProblem(key, reason, "broken", row.kind))
            elif row.head:
                found.append((row.head, row.id))
        # The id of a checkpoint begins with its time.
        found.sort(reverse=True)
        return protocol.RunList([self._listed(name, head) for head, name in found[:limit]], problems, parts)

    def _threads(self, since: Mapping[str, str] | None) -> tuple[list[ThreadRow], frozenset[str] | None]:
        """The threads, and the parts whose threads are listed; None if all threads are."""
        changed = None if since is None else self._tables.changed_threads(since)
        return (
            (list(self._tables.rows.threads()), None) if changed is None else (list(changed[0]), changed[1])
        )

    def _listed(self, thread: str, head: str) -> protocol.IndexedRun:
        shown = identifiers.shown_id(thread, self.known)
        return protocol.IndexedRun(
            key=identifiers.run_key(shown, ""),
            head=identifiers.shown_id(head, self.known)[: identifiers.MAX_ID_LENGTH],
            last_at=identifiers.created_at(head),
        )

    def details(self, keys: Sequence[str]) -> list[protocol.IndexedRun]:
        """Each of these threads with its status, counts, times and calls. Raises LocationUnreadable."""
        return self.retried(lambda: self._all_details(keys))

    def _all_details(self, keys: Sequence[str]) -> list[protocol.IndexedRun]:
        threads = [thread for key in keys if (thread := self._thread(key)) is not None]
        found, left = [], MAX_LISTED_BYTES
        for thread in threads:
            if not self._is_readable(thread):
                continue
            head, oldest, count, steps = self._tables.rows.ends(thread)
            writes = self._tables.rows.head_writes(thread, head)
            attempts = super_steps.attempts_in((task, "", index) for task, index in writes)
            run = replace(
                self._listed(thread, head),
                status=status_of(attempts),
                is_forked=count > steps,
                count=count,
                first_at=identifiers.created_at(oldest),
                copies=tuple(self._shown_key(thread, one) for one in dict.fromkeys((oldest, head)) if one),
            )
            newest = CheckpointKey(thread, "", head)
            left -= self._tables.rows.size_of(newest) or 0
            if left >= 0:
                values, size = self._values(newest, left)
                left -= size
                calls = redacted_calls(calls_in(values).values(), self.known)
                run = replace(run, calls=calls, status=run.status or _left_to_run(attempts, values))
            found.append(run)
        return found

    def _shown_key(self, thread: str, checkpoint: str) -> str:
        """The redacted source key of a checkpoint of a thread."""
        shown = (identifiers.shown_id(one, self.known) for one in (thread, checkpoint))
        return identifiers.source_key(next(shown), "", next(shown))

    def index(self, key: str, *, newest_first: bool = False, since: str = "") -> protocol.RunIndex:
        """The runs and checkpoints of a thread, without bodies. Raises LocationUnreadable."""
        return self.retried(lambda: self._index(key, newest_first, since))

    def _index(self, key: str, newest_first: bool, since: str) -> protocol.RunIndex:
        thread = self._thread(key)
        if thread is None:
            return protocol.RunIndex([], [])
        bodies = Bodies(self.checkpoint_values, thread)
        others = cache(lambda: list(self._newest_of_others(thread)))
        indexer = Indexer(thread, self.known, bodies, self._hints(thread), others)
        index = index_of(self._tables, indexer, newest_first=newest_first, since=since)
        # What other threads have recorded may change with any write.
        return replace(index, cursor="") if others.cache_info().currsize else index

    def _newest_of_others(self, thread: str) -> Iterator[Mapping[str, Any]]:
        """The newest checkpoints of the newest other threads."""
        heads = sorted(((row.head, row.id) for row in self._tables.rows.threads() if row.head), reverse=True)
        keys = [CheckpointKey(name, "", head) for head, name in heads if name and name != thread][:MAX_OTHERS]
        for key in keys:
            yield self._values(key, MAX_OTHER_BYTES)[0]

    def _naming(self, key: CheckpointKey) -> Iterator[Mapping[str, Any]]:
        """The checkpoints that may show the names of a checkpoint's tasks: of its thread, then of others."""
        newest = CheckpointKey(key.thread, "", self._tables.rows.ends(key.thread).newest)
        yield self._values(newest, MAX_OTHER_BYTES)[0]
        yield from self._newest_of_others(key.thread)

    def _thread(self, key: str) -> str | None:
        """The real id of the thread whose run has this key."""
        if self._tables.rows.has_thread(key):
            return key
        for row in self._tables.rows.threads():
            if row.id and identifiers.run_key(identifiers.shown_id(row.id, self.known), "") == key:
                return row.id
        return None

    def _hints(self, thread: str) -> dict[str, str]:
        """Nodes by task id, from small writes that name them; empty if tasks have paths."""
        grouped: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        decoder = Decoder(self.limits)
        for write in self._tables.rows.naming_writes(thread):
            value = written_value(decoder, write, write.value)
            grouped[write.task_id].append({"index": write.index, "channel": write.channel, "value": value})
        return super_steps.hints(grouped)

    def entries(self) -> Iterator[protocol.Entry | protocol.ReadProblem]:
        """Every checkpoint of every thread. Raises LocationUnreadable."""
        for run in self.runs().runs:
            for snapshot in self.index(run.key).snapshots:
                yield protocol.Entry(snapshot.key, snapshot.fingerprint, snapshot.size)

    def entry(self, key: str) -> protocol.Entry | protocol.ReadProblem | None:
        """The checkpoint with this key; None if there is none. Raises LocationUnreadable."""
        found = self.retried(lambda: self._found(key))
        if found is None:
            return None
        size = self.retried(lambda: self._tables.rows.size_of(found)) or 0
        return protocol.Entry(key, f"{size}", size)

    def _found(self, key: str) -> CheckpointKey | None:
        """The columns that identify the checkpoint with this source key, which may be redacted."""
        for ids in identifiers.possible_ids(key):
            if self._tables.rows.size_of(CheckpointKey(*ids)) is not None:
                return CheckpointKey(*ids)
        threads = (self._thread(ids[0]) for ids in identifiers.possible_ids(key))
        real = next((thread for thread in threads if thread), None)
        if real is None:
            return None
        indexer = Indexer(real, self.known, lambda row: {})
        rows = rows_of(self._tables, real)
        keys = {one.key: row for one, row in zip(indexer.snapshots(rows), rows, strict=True)}
        row = keys.get(key)
        return CheckpointKey(real, row.namespace, row.checkpoint_id) if row else None

    def read(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        """A checkpoint with its metadata and writes, as JSON. Raises Unreadable."""
        try:
            found = self.retried(lambda: self._found(entry.real_key))
            if found is None:
                raise protocol.Unavailable("store.row_vanished")
            document = self.retried(lambda: document_of(self._tables, found, lambda: self._naming(found)))
        except protocol.LocationLimitExceeded as error:
            raise protocol.LimitExceeded(error.message) from None
        except protocol.LocationUnreadable as error:
            raise protocol.Unavailable(error.message) from None
        ids = protocol.RecordedIds(document["checkpoint_id"], document["parent_checkpoint_id"], "")
        return protocol.RawCheckpoint(entry, msgspec.json.encode(document), lambda store_format: ids)

    def checkpoint_values(self, thread: str, row: IndexedRow) -> Mapping[str, Any]:
        """The decoded checkpoint of a row, unredacted; empty if it cannot be decoded."""
        return self._values(CheckpointKey(thread, row.namespace, row.checkpoint_id), MAX_INDEXED_BYTES)[0]

    def _values(self, key: CheckpointKey, max_bytes: int) -> tuple[Mapping[str, Any], int]:
        """The decoded checkpoint of a row and its size; empty and 0 if it cannot be decoded."""
        if not self._is_readable(*key):
            return {}, 0
        try:
            stored = self._tables.checkpoint(key, min(self.limits.max_bytes, max_bytes))
        except protocol.Unreadable:
            return {}, 0
        return mapping(stored.values), stored.size

    def _is_readable(self, *row: str) -> bool:
        """Announce that this thread or checkpoint is read next. Returns whether it has not ended a reader."""
        name = hashlib.blake2b(repr(row).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
        if name in self.skipped:
            return False
        self.announce(name)
        return True


def _left_to_run(attempts: Sequence[super_steps.Attempt], values: Mapping[str, Any]) -> str:
    """``unfinished`` if a node is left to run after a checkpoint with these tasks, else empty."""
    done = sum(one.status == "done" and not one.is_late for one in attempts)
    left = [node for node in super_steps.next_nodes(values) if not node.startswith("__")]
    return "unfinished" if len(left) > done else ""


# Builds one document of a checkpoint, its metadata, writes and changes. It is decoded, but not redacted.


# The most ancestors that are read for the changes of a channel, and their bytes. By default, the engine
# writes a snapshot at every hundredth change.
MAX_ANCESTORS = 500
MAX_ANCESTOR_BYTES = 32 * 1024 * 1024
# The key of the metadata that names the channels of which a checkpoint may store only changes.
_COUNTERS = "counters_since_delta_snapshot"
# Returns decoded checkpoints, one after the other.
Others = Callable[[], Iterable[Mapping[str, Any]]]


def document_of(tables: Tables, key: CheckpointKey, others: Others = tuple) -> dict[str, Any]:
    """The document of a checkpoint. Raises Unreadable, and what the tables raise.

    ``others`` are checkpoints after it, or of other threads, that may show the names of its tasks.
    """
    decoder = Decoder(tables.limits)
    stored = tables.checkpoint(key, tables.limits.max_bytes, decoder)
    metadata = decoder.value_or_placeholder("json", stored.metadata, len(stored.metadata or b""))
    document = {
        "thread_id": valid_text(key.thread),
        "checkpoint_ns": valid_text(key.namespace),
        "checkpoint_id": valid_text(key.checkpoint_id),
        "parent_checkpoint_id": valid_text(stored.parent_id) if stored.parent_id else None,
        "checkpoint": stored.values,
        "metadata": metadata,
        "writes": _writes(tables, key, tables.limits.max_bytes - stored.size, decoder),
    }
    if wanted := _changed_channels(stored.values, metadata):
        document["changes"] = _changes(tables, key, stored, wanted, decoder)
    attempts = super_steps.attempts_in(
        (write["task_id"], write["task_path"], write["index"]) for write in document["writes"]
    )
    if names := _task_names(key, document, attempts, others):
        document["task_names"] = names
    if any(one.status == "waiting" for one in attempts) and _is_continued(tables, key, metadata):
        document["is_continued"] = True
    return document


def _is_continued(tables: Tables, key: CheckpointKey, metadata: Any) -> bool:
    """Whether the graph has gone on after a checkpoint at which tasks wait, as far as their rows show.

    With ``durability="exit"``, an answered task stores nothing but changes of channels, if these.
    """
    # A subgraph goes on with the graph that called it.
    outer = parents_in(mapping(metadata)).get("") if key.namespace else key.checkpoint_id
    children = [one for one, parent in tables.rows.parents(key.thread) if outer and parent == outer]
    keys = [("", own_id) for own_id in children]
    return any(
        metadata_of(child.metadata).source == "loop" for child in tables.rows.checkpoints(key.thread, keys)
    )


def _task_names(
    key: CheckpointKey, document: Mapping[str, Any], attempts: Sequence[super_steps.Attempt], others: Others
) -> dict[str, str]:
    """The names of the tasks whose paths do not name them, by id.

    The names are of this checkpoint, or else of ``others``.
    """
    checkpoint, metadata = mapping(document["checkpoint"]), mapping(document["metadata"])
    place = super_steps.Place.after(key.namespace, key.checkpoint_id, metadata.get("step"))
    sent = super_steps.sent_nodes(checkpoint)
    found = super_steps.names_by_id(attempts, place, checkpoint)
    unnamed = [
        one for one in attempts if not (one.task_id in found or super_steps.node_in_path(one.path, sent))
    ]
    # Only functions, whose input is at the checkpoint where they run, leave no other trace of their names.
    is_input = super_steps.START in mapping(checkpoint.get("channel_values"))
    names: list[str] = []
    for other in others() if any(is_input or one.is_called for one in unnamed) else ():
        names += mapping(other.get("versions_seen"))
        found = super_steps.names_by_id(attempts, place, checkpoint, dict.fromkeys(names))
        if not {one.task_id for one in unnamed} - found.keys():
            break
    return found


def written_value(decoder: Decoder, write: WriteRow, value: bytes | None) -> Any:
    """The decoded value of a write, or a placeholder if it cannot be decoded."""
    return decoder.value_or_placeholder(write.kind or None, value, write.size)


def _writes(tables: Tables, key: CheckpointKey, budget: int, decoder: Decoder) -> list[dict[str, Any]]:
    """The writes of a checkpoint's tasks, by task and index. Values beyond the budget are opaque."""
    found: list[dict[str, Any]] = []
    for write in tables.rows.writes(key, budget):
        budget -= write.size
        found.append(
            {
                "task_id": valid_text(write.task_id),
                "task_path": valid_text(write.task_path),
                "index": write.index,
                "channel": valid_text(write.channel),
                "type": valid_text(write.kind),
                "value": written_value(decoder, write, write.value if budget >= 0 else None),
            }
        )
    return found


def _changed_channels(values: Any, metadata: Any) -> set[str]:
    """The channels that have a version in a checkpoint but no value."""
    checkpoint = mapping(values)
    stored, versions = mapping(checkpoint.get("channel_values")), mapping(checkpoint.get("channel_versions"))
    return {
        name for name in mapping(mapping(metadata).get(_COUNTERS)) if name in versions and name not in stored
    }


def _changes(
    tables: Tables, key: CheckpointKey, stored: StoredCheckpoint, wanted: set[str], decoder: Decoder
) -> dict[str, Any]:
    """For each channel, its value at the nearest ancestor that has one, and the writes since, oldest first.

    The writes of a checkpoint are in the order in which the engine applies them. ``is_whole`` is false if an
    ancestor is missing, unreadable or beyond the limits.
    """
    found: dict[str, dict[str, Any]] = {name: {"writes": [], "is_whole": False} for name in wanted}
    left, budget, parent = set(wanted), MAX_ANCESTOR_BYTES, stored.parent_id
    for _ancestor in range(MAX_ANCESTORS):
        if not left or not parent or budget <= 0:
            break
        at = CheckpointKey(key.thread, key.namespace, parent)
        try:
            ancestor = tables.checkpoint(at, budget, decoder)
        except protocol.Unreadable:
            return found
        budget -= ancestor.size
        values = mapping(mapping(ancestor.values).get("channel_values"))
        writes = list(tables.rows.writes(at, max(budget, 0)))
        budget -= sum(write.size for write in writes)
        for name in left:
            found[name]["writes"][:0] = _written(decoder, writes, name)
            if name in values:
                found[name].update(base=values[name], is_whole=True)
        left -= values.keys()
        parent = ancestor.parent_id
    for name in left if not parent else ():
        # No ancestor is left, so the channel began empty.
        found[name]["is_whole"] = bool(found[name]["writes"])
    return found


def _written(decoder: Decoder, writes: Iterable[WriteRow], channel: str) -> list[Any]:
    own = [write for write in writes if write.channel == channel and write.index >= 0]
    own.sort(key=lambda write: (write.task_path, write.task_id, write.index))
    return [written_value(decoder, write, write.value) for write in own]


# The tables of an SQLite file. ``postgresql`` and ``saver`` have those of other stores.


_CHECKPOINT_COLUMNS = CHECKPOINT_COLUMNS | {"checkpoint_id", "parent_checkpoint_id"}
_WRITE_COLUMNS = WRITE_COLUMNS | {"value"}


class SqliteTables(SqliteFile):
    """``Tables`` of a file: ``checkpoints`` and ``writes``."""

    kind: Literal["sqlite"] = "sqlite"
    rows: SqliteRows

    def read_schema(self) -> None:
        """Check the columns of both tables. Raises LocationUnreadable."""
        columns, of_checkpoints = self.plain_columns("checkpoints")
        if not columns >= _CHECKPOINT_COLUMNS:
            raise protocol.LocationUnreadable("langgraph.columns_missing", table="checkpoints")
        columns, of_writes = self.plain_columns("writes")
        if not columns >= _WRITE_COLUMNS:
            raise protocol.LocationUnreadable("langgraph.columns_missing", table="writes")
        self.rows = SqliteRows(self.database.run, columns, (of_checkpoints, of_writes))

    @property
    def finds_appended(self) -> bool:
        """Whether rows and their digest are read from one state."""
        return self.database.reads_one_state

    def abandon(self) -> None:
        """Does nothing: no other program reads the file for this one."""

    def mark(self) -> str:
        """Returns an empty text: the size and times of a file show that it has changed."""
        return ""

    def changed_threads(self, since: Mapping[str, str]) -> None:
        """Returns None: a file that has not changed is not read at all."""

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, from one state of a file in WAL mode. Raises LocationUnreadable."""

        def read_one_state() -> Result:
            with self.database.one_state():
                return read()

        return super().retried(read_one_state)

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with its values. Raises Unreadable."""
        try:
            found = self.rows.checkpoint(key)
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if found is None:
            raise protocol.Unavailable("store.row_vanished")
        if found.size > max_bytes:
            raise protocol.too_large(found.size, self.limits)
        values = (decoder or Decoder(self.limits)).value(found.kind, found.body)
        return StoredCheckpoint(found.parent_id or None, found.size, values, found.metadata)


def tables_in(
    database: Path | DatabaseFile | ServerAddress | SaverAddress,
    limits: protocol.ReadLimits,
    known: KnownSecrets,
) -> Tables:
    """The tables of a checkpoint saver. libpq is loaded only for a server."""
    if isinstance(database, ServerAddress):
        from viewer.engines.langgraph.threads.postgresql import PostgresqlTables

        return PostgresqlTables(database, limits)
    if isinstance(database, SaverAddress):
        from viewer.engines.langgraph.threads.saver import SaverTables

        return SaverTables(database, limits, known)
    return SqliteTables(database, limits)
