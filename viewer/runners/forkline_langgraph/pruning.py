"""Lists and deletes checkpoints of a store: whole threads, or old checkpoints of threads that stay.

The list is made again in the transaction that deletes, and has a digest of every row of the threads in it.
So nothing is deleted if a row of these threads differs from what a person has confirmed. No stored value is
loaded.

What stays can be read as before: a checkpoint stays if a later one needs it for a ``DeltaChannel``, or for
the tasks that it sent. Parents that were deleted are still named. Subgraphs are deleted with the checkpoint
of the thread's own graph that called them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from forkline_langgraph import checkpoints, saver_reader
from forkline_langgraph.checkpoints import TASKS, Key, postgresql, unpacked
from forkline_langgraph.saver_reader import SaverReader
from forkline_langgraph.savers import LOCK_SECONDS, InertSerializer, OneTransaction, database_saver
from forkline_runner.reporting import Refused

# A thread that was written to in the last minute may have a run.
RECENT_SECONDS = 60
TIMEOUT_MILLISECONDS = "120000"
# From this version on, a checkpoint does not need the tasks that its parent's tasks sent. It is the newest.
KEEPS_SENDS = 4


class Stored(NamedTuple):
    """A checkpoint with its writes. ``size`` is in bytes; ``mark`` changes if one of the rows is replaced."""

    key: Key
    parent: str
    size: int
    mark: str
    sends: bool


class Decoded(NamedTuple):
    """What a checkpoint's body says: its format, and the channels that it has with and without a value."""

    version: int
    present: set[str]
    absent: set[str]


class PrunedStore(Protocol):
    """The tables of a location within a transaction."""

    def heads(self) -> list[tuple[str, str]]:
        """Return each thread whose id is a text, with its greatest checkpoint id."""

    def rows(self, thread: str) -> list[Stored] | None:
        """Return all checkpoints of a thread; None if the id of one cannot be read."""

    def others(self, thread: str) -> tuple[int, str]:
        """Return the bytes of a thread's rows that belong to no checkpoint, and a mark as in ``Stored``."""

    def metadata(self, thread: str) -> dict[Key, dict[str, Any]]:
        """Return the metadata of each checkpoint of a thread."""

    def decoded(self, thread: str, key: Key) -> Decoded | None:
        """Return what a checkpoint's body says; None if it cannot be decoded."""

    def unshared_size(self, thread: str, deleted: set[Key]) -> int:
        """Return the bytes of the values in other tables that no checkpoint would need any more."""

    def delete_thread(self, thread: str) -> None:
        """Delete a thread with the engine's saver, if its version can do that."""

    def delete(self, thread: str, deleted: set[Key]) -> None:
        """Delete checkpoints of a thread, their writes, and values that no other checkpoint has."""


@dataclass
class Plan:
    """What is deleted: keys by thread, and which threads are deleted whole."""

    deleted: dict[str, set[Key]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    protected: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    whole: bool = False
    # All checkpoints of the threads, with their writes.
    rows: dict[str, list[Stored]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode("utf-8", "replace")).hexdigest()

    def add(
        self, thread: str, rows: Sequence[Stored], deleted: set[Key], size: int, others: str = ""
    ) -> None:
        self.deleted[thread], self.sizes[thread], self.rows[thread] = deleted, size, sorted(rows)
        self.lines.append(f"{thread}\0{self.whole}\0{others}")
        for row in self.rows[thread]:
            self.lines.append("\0".join((*row.key, row.parent, row.mark, str(row.key in deleted))))


def created_at(checkpoint_id: str) -> float | None:
    """Return when a checkpoint was written, in seconds since 1970; None if its id does not contain it."""
    digits = checkpoint_id.replace("-", "")
    if len(checkpoint_id) != 36 or len(digits) != 32 or digits[12] != "6":
        return None
    try:
        return int(digits[:12] + digits[13:16], 16) / 10_000_000 - 12_219_292_800
    except ValueError:
        return None


def planned(store: PrunedStore, request: Any) -> Plan:
    """Return what the rules of a request delete of a store."""
    rules, protected, now = request["rules"], request["protected"], request["now"]
    stays = set(request["kept_threads"])
    plan, latest_at = Plan(whole=rules["whole"]), now - 86_400 * (rules["days"] or 0)
    for thread, head in sorted(store.heads(), key=lambda one: (one[1], one[0])):
        if rules["thread"] and thread != rules["thread"]:
            continue
        newest = created_at(head)
        if rules["whole"] and rules["days"] is not None and (newest is None or newest > latest_at):
            continue
        rows = store.rows(thread)
        if rows is None or thread in stays:
            plan.protected["not_listed"] += len(rows or [None])
            continue
        times = [created_at(row.key[1]) for row in rows]
        if any(time is not None and time > now - RECENT_SECONDS for time in times):
            plan.protected["recent"] += len(rows)
        elif rules["whole"]:
            if rules["days"] is None or all(time is not None and time <= latest_at for time in times):
                _add_thread(plan, store, thread, rows, protected)
        else:
            _add_checkpoints(plan, store, thread, rows, request)
    return plan


def _add_thread(
    plan: Plan, store: PrunedStore, thread: str, rows: list[Stored], protected: dict[str, str]
) -> None:
    reason = next((protected[row.key[1]] for row in rows if row.key[1] in protected), None)
    if reason:
        plan.protected[reason] += len(rows)
        return
    size, others = store.others(thread)
    plan.add(thread, rows, {row.key for row in rows}, size + sum(row.size for row in rows), others)


def _add_checkpoints(plan: Plan, store: PrunedStore, thread: str, rows: list[Stored], request: Any) -> None:
    """Add the checkpoints of a thread that the rules delete, and their subgraphs."""
    rules, protected = request["rules"], dict(request["protected"])
    own = {row.key[1]: row for row in rows if not row.key[0]}
    parents = Counter(row.parent for row in own.values() if row.parent in own)
    newest = _newest(own, parents, rules["latest"] or 1)
    latest_at = request["now"] - 86_400 * (rules["days"] or 0)

    def holds(identifier: str) -> bool:
        written = created_at(identifier)
        return rules["days"] is None or (written is not None and written <= latest_at)

    matching = [one for one in own if holds(one) and (rules["latest"] is None or one not in newest)]
    if not matching:
        return
    metadata = store.metadata(thread)
    callers = {key: _caller(metadata.get(key)) for key in (row.key for row in rows) if key[0]}
    for key, caller in callers.items():
        if key[1] in protected:
            protected.setdefault(caller, protected[key[1]])
    stays = {one: protected[one] for one in matching if one in protected}
    stays |= {one: "fork_point" for one in matching if one not in stays and parents[one] > 1}
    stays |= {one: "newest" for one in matching if one not in stays and one in newest}
    deleted = {("", one) for one in matching if one not in stays}
    needs = _Needs(store, thread, rows, metadata)
    needed = needs.rescued(deleted)
    plan.protected.update(stays.values())
    plan.protected["needed"] += len(needed)
    kept = sorted(one for one in own if ("", one) not in deleted)
    deleted |= _deleted_subgraphs(callers, {one for _namespace, one in deleted}, kept)
    needs.rescued(deleted)
    if deleted:
        size = sum(row.size for row in rows if row.key in deleted) + store.unshared_size(thread, deleted)
        plan.add(thread, rows, deleted, size)


def _newest(own: dict[str, Stored], parents: Counter[str], latest: int) -> set[str]:
    """Return the newest checkpoints of each branch: those without a child, and their nearest ancestors."""
    found: set[str] = set()
    for one in own:
        if one not in parents:
            at, left = one, latest
            while at in own and left:
                found.add(at)
                at, left = own[at].parent, left - 1
    return found


def _caller(metadata: dict[str, Any] | None) -> str:
    """Return the checkpoint of the thread's own graph that called a subgraph's; empty if it is unknown."""
    parents = (metadata or {}).get("parents")
    return str(parents.get("") or "") if isinstance(parents, dict) else ""


def _deleted_subgraphs(callers: dict[Key, str], deleted: set[str], kept: list[str]) -> set[Key]:
    """Return the checkpoints of subgraphs that are deleted with those that called them.

    A subgraph compiled with ``checkpointer=True`` has a namespace without a task, and begins with its last
    state before the checkpoint that calls it. That of each kept checkpoint stays.
    """
    found = {key for key, caller in callers.items() if caller in deleted}
    remembered: dict[str, list[str]] = defaultdict(list)
    for namespace, identifier in callers:
        if ":" not in namespace:
            remembered[namespace].append(identifier)
    for namespace, identifiers in remembered.items():
        stays = {max(identifiers)}
        for one in kept:
            stays.add(max((before for before in identifiers if before < one), default=""))
        found -= {(namespace, one) for one in stays}
    return found


class _Needs:
    """What the checkpoints that stay need of those that would be deleted."""

    def __init__(
        self, store: PrunedStore, thread: str, rows: list[Stored], metadata: dict[Key, dict[str, Any]]
    ) -> None:
        self._store, self._thread = store, thread
        self._rows = {row.key: row for row in rows}
        # Only an update by a person may lack the mark.
        self._may_have_deltas = any(
            checkpoints.DELTA_MARKS & one.keys() or one.get("source") == "update" for one in metadata.values()
        )
        self._checked: set[Key] = set()

    def rescued(self, deleted: set[Key]) -> set[Key]:
        """Remove from ``deleted`` what is needed, and return it."""
        found: set[Key] = set()
        due = [key for key in self._rows if key not in deleted]
        while due:
            key = due.pop()
            parent = (key[0], self._rows[key].parent)
            if key not in self._checked and parent in deleted:
                self._checked.add(key)
                needed = self._needed(key) & deleted
                deleted -= needed
                found |= needed
                due += needed
        return found

    def _needed(self, key: Key) -> set[Key]:
        found: set[Key] = set()
        parent = self._rows[(key[0], self._rows[key].parent)]
        decoded = self._store.decoded(self._thread, key)
        if parent.sends and (decoded is None or decoded.version < KEEPS_SENDS):
            found.add(parent.key)
        # A newer format may need any of its ancestors.
        is_known = decoded is None or decoded.version <= KEEPS_SENDS
        if is_known and not self._may_have_deltas:
            return found
        # The engine reads the writes of all ancestors up to one that has the channel's value.
        missing = decoded.absent if decoded and is_known else {""}
        at = parent.key
        while missing and at in self._rows and at not in found - {parent.key}:
            found.add(at)
            if decoded is not None and (ancestor := self._store.decoded(self._thread, at)) is not None:
                missing = missing - ancestor.present
            at = (at[0], self._rows[at].parent)
        return found


def executed(plan: Plan, store: PrunedStore) -> None:
    """Delete what was planned. Raises Refused if anything else would change."""
    for thread, keys in plan.deleted.items():
        if plan.whole:
            store.delete_thread(thread)
        else:
            store.delete(thread, keys)
        if sorted(store.rows(thread) or ()) != [row for row in plan.rows[thread] if row.key not in keys]:
            raise Refused("langgraph.prune_differs")


# SQLite


class SqliteStore:
    """The ``PrunedStore`` of a SQLite file."""

    _CHECKPOINTS = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, rowid,
            coalesce(octet_length(checkpoint), 0) + coalesce(octet_length(metadata), 0)
        FROM checkpoints WHERE thread_id = ?
    """
    _WRITES = f"""
        SELECT checkpoint_ns, checkpoint_id, count(*), coalesce(sum(octet_length(value)), 0), total(rowid),
            max(channel = '{TASKS}' AND idx >= 0)
        FROM writes WHERE thread_id = ? GROUP BY checkpoint_ns, checkpoint_id
    """  # noqa: S608
    _KEY = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        if sqlite3.sqlite_version_info < checkpoints.HAS_OCTET_LENGTH:
            connection.create_function("octet_length", 1, checkpoints.octet_length, deterministic=True)
        # Never fails; such ids are then refused, because they cannot be bound again.
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")

    def heads(self) -> list[tuple[str, str]]:
        found = self._connection.execute("SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY 1")
        return [(thread, str(head)) for thread, head in found if isinstance(thread, str)]

    def rows(self, thread: str) -> list[Stored] | None:
        try:
            writes = {tuple(row[:2]): row[2:] for row in self._connection.execute(self._WRITES, (thread,))}
            found = []
            for *key, parent, rowid, size in self._connection.execute(self._CHECKPOINTS, (thread,)):
                if not all(isinstance(one, str) and one.isprintable() for one in (*key, parent or "")):
                    return None
                count, value_size, rowids, sends = writes.get(tuple(key), (0, 0, 0.0, 0))
                mark = f"{rowid} {size} {count} {value_size} {rowids}"
                found.append(Stored((key[0], key[1]), parent or "", size + value_size, mark, bool(sends)))
        except UnicodeEncodeError:
            return None
        return found

    def others(self, thread: str) -> tuple[int, str]:
        statement = """
            SELECT coalesce(sum(octet_length(value)), 0), count(*), total(rowid) FROM writes w
            WHERE thread_id = ? AND NOT EXISTS (
                SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id
                    AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id
            )
        """
        size, count, rowids = self._connection.execute(statement, (thread,)).fetchone()
        return size, f"{size} {count} {rowids}"

    def metadata(self, thread: str) -> dict[Key, dict[str, Any]]:
        statement = "SELECT checkpoint_ns, checkpoint_id, metadata FROM checkpoints WHERE thread_id = ?"
        return {
            (namespace, own_id): _mapping(text)
            for namespace, own_id, text in self._connection.execute(statement, (thread,))
        }

    def decoded(self, thread: str, key: Key) -> Decoded | None:
        statement = f"SELECT type, checkpoint FROM checkpoints WHERE {self._KEY}"  # noqa: S608
        kind, body = self._connection.execute(statement, (thread, *key)).fetchone()
        try:
            found: Any = unpacked(body) if kind == "msgpack" else json.loads(body) if kind == "json" else {}
            return _decoded(found, found["channel_values"].keys())
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def unshared_size(self, thread: str, deleted: set[Key]) -> int:
        return 0

    def delete_thread(self, thread: str) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        saver = SqliteSaver(self._connection, serde=InertSerializer())
        # Without the tables and columns that it would add.
        saver.is_setup = True
        if not _deleted_by(saver, thread):
            for table in ("checkpoints", "writes"):
                self._connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread,))  # noqa: S608

    def delete(self, thread: str, deleted: set[Key]) -> None:
        for table in ("writes", "checkpoints"):
            statement = f"DELETE FROM {table} WHERE {self._KEY}"  # noqa: S608
            self._connection.executemany(statement, [(thread, *key) for key in deleted])

    def count_rows(self, plan: Plan) -> int:
        """Return how many rows of both tables a plan deletes."""
        found = 0
        for thread, keys in plan.deleted.items():
            for table in ("checkpoints", "writes"):
                columns = "thread_id, checkpoint_ns, checkpoint_id"
                statement = f"SELECT {columns} FROM {table} WHERE thread_id = ?"  # noqa: S608
                # The table may compare ids without their case.
                for own, *key in self._connection.execute(statement, (thread,)):
                    found += own == thread and (plan.whole or tuple(key) in keys)
        return found


def _mapping(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _decoded(checkpoint: Any, present: Any) -> Decoded:
    channels = {str(one) for one in checkpoint["channel_versions"]}
    absent = {one for one in channels - set(present) if not one.startswith(checkpoints.CONTROL)}
    version = checkpoint.get("v")
    return Decoded(version if isinstance(version, int) else 0, set(present), absent)


def _deleted_by(saver: Any, thread: str) -> bool:
    """Delete a thread with a saver. Return False if its version has no method for that."""
    try:
        saver.delete_thread(thread)
    except (AttributeError, NotImplementedError):
        return False
    return True


@contextmanager
def _sqlite(path: Path) -> Iterator[tuple[OneTransaction, SqliteStore]]:
    """Yield the store of a file in a transaction, which is rolled back unless it is committed."""
    if not path.exists():
        raise Refused("langgraph.store_unreadable", path=path, error="no such file")
    if path.resolve() != path:
        raise Refused("langgraph.location_is_link", path=path, place=path.resolve())
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise Refused("langgraph.store_not_writable", path=path)
    connection = sqlite3.connect(path, timeout=LOCK_SECONDS, factory=OneTransaction, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        checkpoints.refuse_foreign(connection, path)
        kinds = (
            "SELECT type, upper(sql) FROM sqlite_master WHERE lower(tbl_name) IN ('checkpoints', 'writes')"
        )
        for kind, sql in connection.execute(kinds).fetchall():
            if kind in ("trigger", "view") or str(sql).startswith("CREATE VIRTUAL"):
                raise Refused("langgraph.no_plain_tables", path=path)
        yield connection, SqliteStore(connection)
    except sqlite3.Error as error:
        raise Refused("langgraph.not_pruned", path=path, error=error) from error
    finally:
        connection.close()


def _pruned_file(path: Path, request: Any) -> Plan:
    """Delete the confirmed list of a file. Return what was planned, which may be another list."""
    with _sqlite(path) as (connection, store):
        plan = planned(store, request)
        if plan.digest == request["digest"]:
            count, before = store.count_rows(plan), connection.total_changes
            executed(plan, store)
            if connection.total_changes - before != count:
                raise Refused("langgraph.prune_differs")
            connection.commit_all()
    return plan


# PostgreSQL


class PostgresqlStore:
    """The ``PrunedStore`` of a PostgreSQL database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        columns = {table: checkpoints.database_columns(connection, table) for table in postgresql.TABLES}
        self._names = postgresql.expressions_for(columns)
        self._has_versions = "version" in columns["checkpoint_blobs"]

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return checkpoints.rows_of(self._connection, statement.format(**self._names), *values)

    def heads(self) -> list[tuple[str, str]]:
        statement = 'SELECT thread_id, max({id} COLLATE "C") FROM checkpoints GROUP BY 1'
        return [(str(thread), str(head)) for thread, head in self._all(statement)]

    def rows(self, thread: str) -> list[Stored] | None:
        of_writes = f"""
            SELECT checkpoint_ns, checkpoint_id, count(*), coalesce(sum(octet_length(blob)), 0)::bigint,
                sum(hashtextextended(concat_ws(' ', xmin, ctid), 0))::text,
                bool_or(channel = '{TASKS}' AND idx >= 0)
            FROM checkpoint_writes WHERE thread_id = %s GROUP BY 1, 2
        """  # noqa: S608
        statement = """
            SELECT checkpoint_ns, {id}, coalesce({parent}, ''), xmin::text || ' ' || ctid::text,
                (pg_column_size(checkpoint) + pg_column_size(metadata))::bigint
            FROM checkpoints WHERE thread_id = %s
        """
        writes = {tuple(row[:2]): row[2:] for row in self._all(of_writes, thread)}
        found = []
        for namespace, own_id, parent, version, size in self._all(statement, thread):
            if not all(isinstance(one, str) and one.isprintable() for one in (namespace, own_id, parent)):
                return None
            count, value_size, versions, sends = writes.get((namespace, own_id), (0, 0, "", False))
            mark = f"{version} {count} {value_size} {versions}"
            found.append(Stored((namespace, own_id), parent, size + value_size, mark, bool(sends)))
        return found

    def others(self, thread: str) -> tuple[int, str]:
        columns = """
            coalesce(sum(octet_length(blob)), 0)::bigint, count(*),
            sum(hashtextextended(concat_ws(' ', xmin, ctid), 0))::text
        """
        statement = f"""
            SELECT {columns} FROM checkpoint_blobs WHERE thread_id = %s
            UNION ALL SELECT {columns} FROM checkpoint_writes w WHERE thread_id = %s AND NOT EXISTS (
                SELECT 1 FROM checkpoints WHERE thread_id = w.thread_id
                    AND checkpoint_ns = w.checkpoint_ns AND {{id}} = w.checkpoint_id
            )
        """  # noqa: S608
        found = self._all(statement, thread, thread)
        return sum(size for size, *_mark in found), repr(found)

    def metadata(self, thread: str) -> dict[Key, dict[str, Any]]:
        statement = "SELECT checkpoint_ns, {id}, metadata::text FROM checkpoints WHERE thread_id = %s"
        rows = self._all(statement, thread)
        return {(namespace, own_id): _mapping(text) for namespace, own_id, text in rows}

    def decoded(self, thread: str, key: Key) -> Decoded | None:
        statement = """
            SELECT checkpoint::text FROM checkpoints
            WHERE thread_id = %s AND checkpoint_ns = %s AND {id} = %s
        """
        of_blobs = """
            SELECT b.channel FROM checkpoint_blobs b
            JOIN unnest(%s::text[], %s::text[]) AS wanted(channel, version)
                ON wanted.channel = b.channel AND wanted.version = {version}
            WHERE b.thread_id = %s AND b.checkpoint_ns = %s AND b.type <> 'empty'
        """
        ((text,),) = self._all(statement, thread, *key)
        found = _mapping(text)
        versions = found.get("channel_versions") or {}
        named = list(versions), [str(one) for one in versions.values()]
        blobs = {channel for (channel,) in self._all(of_blobs, *named, thread, key[0])}
        return _decoded({"channel_versions": {}, **found}, {*(found.get("channel_values") or {}), *blobs})

    def _unshared(self, thread: str, deleted: set[Key]) -> dict[str, set[tuple[str, str]]]:
        """Return the channel and version of each value that only these checkpoints have, by namespace."""
        statement = """
            SELECT checkpoint_ns, {id}, (checkpoint -> 'channel_versions')::text
            FROM checkpoints WHERE thread_id = %s
        """
        freed, kept = defaultdict[str, set[tuple[str, str]]](set), set()
        for namespace, own_id, text in self._all(statement, thread):
            values = {(channel, str(version)) for channel, version in _mapping(text).items()}
            if (namespace, own_id) in deleted:
                freed[namespace] |= values
            else:
                kept |= {(namespace, *one) for one in values}
        return {
            namespace: {one for one in values if (namespace, *one) not in kept}
            for namespace, values in freed.items()
        }

    _BLOBS = """
        FROM checkpoint_blobs b USING unnest(%s::text[], %s::text[]) AS wanted(channel, version)
        WHERE wanted.channel = b.channel AND wanted.version = b.version
            AND b.thread_id = %s AND b.checkpoint_ns = %s
    """

    def unshared_size(self, thread: str, deleted: set[Key]) -> int:
        if not self._has_versions:
            return 0
        size = "SELECT coalesce(sum(octet_length(b.blob)), 0)" + self._BLOBS.replace(" USING", ",")
        found = 0
        for namespace, values in self._unshared(thread, deleted).items():
            found += int(self._all(size, *_columns(values), thread, namespace)[0][0])
        return found

    def delete_thread(self, thread: str) -> None:
        if not _deleted_by(database_saver(self._connection, InertSerializer()), thread):
            for table in postgresql.TABLES:
                self._connection.execute(f"DELETE FROM {table} WHERE thread_id = %s", (thread,))  # noqa: S608

    def delete(self, thread: str, deleted: set[Key]) -> None:
        unshared = self._unshared(thread, deleted)
        for namespace, values in unshared.items():
            if self._has_versions:
                self._connection.execute("DELETE" + self._BLOBS, (*_columns(values), thread, namespace))
            ids = [own_id for own, own_id in deleted if own == namespace]
            for table in ("checkpoint_writes", "checkpoints"):
                statement = f"DELETE FROM {table} WHERE thread_id = %s AND checkpoint_ns = %s"  # noqa: S608
                self._connection.execute(f"{statement} AND checkpoint_id = ANY(%s)", (thread, namespace, ids))


def _columns(pairs: set[tuple[str, str]]) -> tuple[list[str], list[str]]:
    ordered = sorted(pairs)
    return [one for one, _other in ordered], [other for _one, other in ordered]


# The tables of which a deletion may delete, keep or find other rows than those with the listed ids: by a
# trigger, which a foreign key of another table has as well, a rule, a policy, a partition or a collation.
NOT_PLAIN = """
    SELECT 1 FROM pg_class c WHERE oid IN (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name) AND (
        relkind <> 'r' OR row_security_active(oid)
        OR EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = c.oid)
        OR EXISTS (SELECT 1 FROM pg_rewrite WHERE ev_class = c.oid)
        OR EXISTS (
            SELECT 1 FROM pg_trigger WHERE tgrelid = c.oid AND tgenabled <> 'D' AND tgtype::int & 8 <> 0
        )
        OR EXISTS (
            SELECT 1 FROM pg_attribute a JOIN pg_collation ON pg_collation.oid = attcollation
            WHERE attrelid = c.oid AND NOT collisdeterministic
        )
    )
"""


@contextmanager
def _database(path: str, *, read_only: bool) -> Iterator[PostgresqlStore]:
    """Yield the store of a database in a transaction, which is committed at the end. Raises Refused."""
    # What was committed before the lock has to be seen after it.
    level, limit = "READ COMMITTED", TIMEOUT_MILLISECONDS
    with checkpoints.in_transaction(path, level, limit, read_only=read_only) as connection:
        if not read_only:
            # No other process writes between the comparison and the commit.
            tables = ", ".join(postgresql.TABLES)
            connection.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")
            if checkpoints.rows_of(connection, NOT_PLAIN, list(postgresql.TABLES)):
                raise Refused("langgraph.no_plain_tables", path=path)
        yield PostgresqlStore(connection)


# A project's own saver


class SaverStore:
    """The part of a ``PrunedStore`` that a project's saver can do: whole threads, without a transaction."""

    def __init__(self, reader: SaverReader) -> None:
        self._reader = reader

    def heads(self) -> list[tuple[str, str]]:
        return [(thread, head) for thread, head, _mark in self._reader.threads()]

    def rows(self, thread: str) -> list[Stored] | None:
        found: list[Stored] = []
        for row, one in self._reader.rows(thread, also_others=True):
            if str(one.config["configurable"]["thread_id"]) != thread:
                # Its database compares ids without their case, for example, and would delete both threads.
                return None
            namespace, own_id, parent, size, metadata, writes = row
            if len(found) + 1 >= saver_reader.MAX_ROWS or not (namespace + own_id + parent).isprintable():
                return None
            parts = (saver_reader.bytes_of(one.checkpoint), metadata, repr(writes).encode())
            size += len(metadata) + sum(write[3] for write in writes)
            mark = hashlib.sha256(b"\0".join(parts)).hexdigest()
            found.append(Stored((namespace, own_id), parent, size, mark, sends=False))
        return found

    def others(self, thread: str) -> tuple[int, str]:
        return 0, ""


def _pruned_by_saver(request: Any) -> dict[str, Any]:
    """Return the list of a request, and delete its threads one by one if it has the confirmed digest.

    The answer names only the threads that were deleted, if the saver fails. Raises Refused if none was.
    """
    permitted = ("delete_thread", "adelete_thread") if request["digest"] else ()
    deleted: dict[str, set[Key]] = {}
    folder, saver = request["saver"]
    with saver_reader.opened(folder, saver, permitted) as reader:
        if reader.is_in_memory:
            raise Refused("saver.in_memory")
        store: Any = SaverStore(reader)
        plan = planned(store, request)
        if not request["digest"] or plan.digest != request["digest"]:
            return _answer(plan, plan.deleted, is_deleted=False)
        try:
            for thread, keys in plan.deleted.items():
                # The threads before it may have taken a while.
                if sorted(store.rows(thread) or ()) != plan.rows[thread]:
                    continue
                reader.delete_thread(thread)
                if store.rows(thread):
                    raise Refused("saver.not_deleted")
                deleted[thread] = keys
        except (Exception, SystemExit):
            if not deleted:
                raise
    return _answer(plan, deleted, is_deleted=bool(deleted))


def pruned(request: Any) -> dict[str, Any]:
    """Return the list of a request. If it has the confirmed digest, delete it. Raises Refused."""
    if request["saver"]:
        return _pruned_by_saver(request)
    path, is_confirmed = request["path"], bool(request["digest"])
    if checkpoints.is_database(path):
        with _database(path, read_only=not is_confirmed) as store:
            plan = planned(store, request)
            if is_confirmed and plan.digest == request["digest"]:
                executed(plan, store)
    elif is_confirmed:
        plan = _pruned_file(Path(path), request)
    else:
        with (
            tempfile.TemporaryDirectory() as scratch,
            checkpoints.opened_file(Path(path), Path(scratch)) as connection,
        ):
            plan = planned(SqliteStore(connection), request)
    return _answer(plan, plan.deleted, is_deleted=is_confirmed and plan.digest == request["digest"])


def _answer(plan: Plan, deleted: dict[str, set[Key]], *, is_deleted: bool) -> dict[str, Any]:
    return {
        "digest": plan.digest,
        "threads": [[thread, len(keys), plan.sizes[thread]] for thread, keys in deleted.items()],
        "rows": [[thread, *key] for thread, keys in deleted.items() for key in sorted(keys, key=_by_id)],
        "protected": {reason: count for reason, count in plan.protected.items() if count},
        "deleted": is_deleted,
    }


def _by_id(key: Key) -> tuple[str, str]:
    return key[1], key[0]
