"""Lists the checkpoints of a thread: all of them, the newest of a long thread, or what is new since a cursor.

A listing leaves a cursor, which Forkline stores with the run: the heads of all branches, and a digest of the
other rows. If the digest is the same, only the heads and the newer rows are read. A fork, a deleted or
replaced row, or a write after an older checkpoint changes the digest or starts a branch, so that the whole
thread is listed.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from viewer.engines.langgraph import identifiers
from viewer.engines.langgraph.super_steps import Attempt, attempts_in
from viewer.engines.langgraph.tables import MAX_ROWS, Key, Rows
from viewer.engines.langgraph.threads import Tables
from viewer.engines.langgraph.threads.rows import (
    FIRST_BRANCH,
    IndexedRow,
    Indexer,
    Metadata,
    add_stray_interrupts,
    linked,
    metadata_of,
    seconds_of,
    status_of,
)
from viewer.stores.protocol import IndexedRun, RunIndex

# A shorter thread is listed completely in about the same time.
MIN_CHECKPOINTS = 1_000
# Twice as many rows as a page shows, and the newest branches whose ends are listed with them.
MAX_NEWEST, MAX_BRANCHES = 240, 300
# Another version makes cursors invalid. It has to change with what a listing finds in a row.
VERSION = 1
# The heads of a thread with more branches and subgraphs take too long to read.
MAX_HEADS = 200
# More appended rows are listed with all others.
MAX_APPENDED = 1_000


class Head(msgspec.Struct, array_like=True, frozen=True):
    """The newest checkpoint of a branch. ``mark`` changes with its writes."""

    namespace: str
    checkpoint_id: str
    branch: str
    turn: int
    mark: int


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """A thread when it was listed, with the duration of each of its runs."""

    version: int
    last: str
    count: int
    digest: str
    heads: list[Head]
    seconds: dict[str, float]


def index_of(tables: Tables, indexer: Indexer, *, newest_first: bool = False, since: str = "") -> RunIndex:
    """The runs and checkpoints of a thread, without bodies.

    With ``newest_first``, only those of a long thread that a page shows first. With the cursor of an earlier
    listing, only what is new or has changed since, if the cursor suffices to find that.
    """
    if newest_first and (index := _newest(tables, indexer)):
        return index
    if since and (index := _appended(tables, indexer, since)):
        return index
    rows = rows_of(tables, indexer.thread)
    # Made first, since this links the rows: the calls of a run are read from rows without children.
    snapshots = indexer.snapshots(rows)
    return RunIndex(indexer.runs(rows), snapshots, cursor=_cursor_of(tables, indexer, rows))


def rows_of(tables: Tables, thread: str) -> list[IndexedRow]:
    """The newest rows of a thread by namespace and id, with their tasks, without bodies."""
    rows = _readable(tables.rows, thread)
    attempts = _attempts_of(tables.rows, thread)
    for row in rows:
        row.attempts = attempts.get((row.namespace, row.checkpoint_id), [])
    if tables.rows.has_last_only:
        add_stray_interrupts(rows, attempts)
    return sorted(rows, key=lambda row: (row.namespace, row.checkpoint_id))


def _readable(stored: Rows, thread: str, keys: Sequence[Key] | None = None) -> list[IndexedRow]:
    """The newest rows of a thread, or those with these keys, whose ids can be shown."""
    return [
        IndexedRow(
            one.namespace, one.checkpoint_id, one.parent_id, one.size, metadata_of(one.metadata), one.mark
        )
        for one in stored.checkpoints(thread, keys)
        if _is_id(one.checkpoint_id)
    ]


def _is_id(text: str) -> bool:
    return bool(text) and text.isprintable() and len(text) <= identifiers.MAX_ID_LENGTH


def _newest(tables: Tables, indexer: Indexer) -> RunIndex | None:
    """The outline and newest checkpoints of a thread's own graph; None if the thread is not long.

    The turns of the checkpoints are not known yet.
    """
    rows = _outlined(tables, indexer.thread)
    if len(rows) < MIN_CHECKPOINTS:
        return None
    shown = _shown_first(rows)
    _fill(tables, indexer.thread, _with_parents(shown))
    indexer.add_nodes(tables.rows.namespaces(indexer.thread))
    for row in shown:
        row.turn = 0
    return RunIndex([_run(indexer, rows)], indexer.columns_of(shown), _outline(indexer, rows))


def _attempts_of(rows: Rows, thread: str, keys: Sequence[Key] | None = None) -> Mapping[Key, list[Attempt]]:
    """The tasks of each checkpoint of a thread, or of those with these keys."""
    found: dict[Key, list[tuple[str, str, int]]] = defaultdict(list)
    for namespace, checkpoint_id, task, path, index in rows.tasks(thread, keys):
        found[namespace, checkpoint_id].append((task, path, index))
    return {at: attempts_in(writes) for at, writes in found.items()}


def _outlined(tables: Tables, thread: str) -> list[IndexedRow]:
    """The linked rows of a thread's own graph, oldest first, with nothing but their ids."""
    unread = Metadata()
    rows = [
        IndexedRow("", own_id, parent_id or None, 0, unread, "")
        for own_id, parent_id in tables.rows.parents(thread)
        if _is_id(own_id)
    ]
    rows.sort(key=lambda row: row.checkpoint_id)
    linked(rows)
    return rows


def _shown_first(rows: Sequence[IndexedRow]) -> list[IndexedRow]:
    """The newest rows, the first and last of each of the newest branches, and their parents, oldest first."""
    first, last = dict[str, IndexedRow](), dict[str, IndexedRow]()
    for row in rows:
        first.setdefault(row.branch, row)
        last[row.branch] = row
    branches = list(first)[-MAX_BRANCHES:]
    ends = [row for name in branches for row in (first[name], last[name])]
    return _with_parents([*rows[-MAX_NEWEST:], rows[0], *ends])


def _with_parents(rows: Sequence[IndexedRow]) -> list[IndexedRow]:
    """These rows and their parents, each once, oldest first."""
    found = {row.checkpoint_id: row for one in rows for row in (one, one.parent) if row}
    return [found[own_id] for own_id in sorted(found)]


def _fill(tables: Tables, thread: str, rows: Sequence[IndexedRow]) -> None:
    """Read the columns and tasks of these rows."""
    by_id = {row.checkpoint_id: row for row in rows}
    keys = [("", own_id) for own_id in by_id]
    for one in tables.rows.checkpoints(thread, keys):
        if row := by_id.get(one.checkpoint_id):
            row.size, row.metadata, row.mark = one.size, metadata_of(one.metadata), one.mark
    for (_namespace, own_id), attempts in _attempts_of(tables.rows, thread, keys).items():
        if row := by_id.get(own_id):
            row.attempts = attempts


def _run(indexer: Indexer, rows: Sequence[IndexedRow]) -> IndexedRun:
    first, head = rows[0], rows[-1]
    shown = (identifiers.shown_id(one, indexer.known) for one in (indexer.thread, head.checkpoint_id))
    return IndexedRun(
        key=identifiers.run_key(next(shown), ""),
        head=next(shown)[: identifiers.MAX_ID_LENGTH],
        last_at=identifiers.created_at(head.checkpoint_id),
        first_at=identifiers.created_at(first.checkpoint_id),
        status=status_of(head.attempts),
        count=len(rows),
    )


def _outline(indexer: Indexer, rows: Sequence[IndexedRow]) -> list[tuple[str, str, str]]:
    """The redacted id, the parent's id and the branch of each row."""
    ids = {row.checkpoint_id: identifiers.shown_id(row.checkpoint_id, indexer.known) for row in rows}
    parents = (
        (ids.get(row.parent_id) or identifiers.shown_id(row.parent_id, indexer.known))
        if row.parent_id
        else ""
        for row in rows
    )
    return [(ids[row.checkpoint_id], parent, row.branch) for row, parent in zip(rows, parents, strict=True)]


def _cursor_of(tables: Tables, indexer: Indexer, rows: Sequence[IndexedRow]) -> str:
    """The cursor of a thread with these linked rows; empty if its next listing has to be complete."""
    by_namespace: dict[str, list[IndexedRow]] = defaultdict(list)
    for row in rows:
        by_namespace[row.namespace].append(row)
    seconds = {namespace: seconds_of(own) for namespace, own in by_namespace.items()}
    last = max((row.checkpoint_id for row in rows), default="")
    return _encoded(tables, indexer, (row for row in rows if not row.children), last, len(rows), seconds)


def _appended(tables: Tables, indexer: Indexer, before: str) -> RunIndex | None:
    """The rows that were appended since a cursor, and the heads that changed with them.

    None if the cursor does not suffice to list them.
    """
    stored, cursor = tables.rows, _decoded(before)
    if not tables.finds_appended or cursor is None:
        return None
    thread = indexer.thread
    if stored.digest(thread, cursor.last, [one.checkpoint_id for one in cursor.heads]) != cursor.digest:
        return None
    new_keys = stored.keys_after(thread, cursor.last, MAX_APPENDED + 1)
    if len(new_keys) > MAX_APPENDED or cursor.count + len(new_keys) >= MAX_ROWS:
        return None
    head_keys = [(one.namespace, one.checkpoint_id) for one in cursor.heads]
    rows = _rows(stored, thread, [*head_keys, *new_keys])
    if len(rows) != len(head_keys) + len(new_keys):
        return None
    for head in cursor.heads:
        row = rows[head.namespace, head.checkpoint_id]
        row.branch, row.turn = head.branch, head.turn
    new = [rows[key] for key in sorted(new_keys)]
    if not _are_linked(stored, thread, rows, new):
        return None
    marks = {(head.namespace, head.checkpoint_id): head.mark for head in cursor.heads}
    if not new and all(_mark(rows[key]) == mark for key, mark in marks.items()):
        return RunIndex([], [], cursor=before, is_appended=True)
    heads = [rows[key] for key in head_keys]
    _add_parents(stored, thread, heads)
    indexer.add_nodes(stored.namespaces(thread))
    # A new subgraph may name a pending task of any head.
    snapshots = indexer.columns_of([*heads, *new])
    seconds = _seconds(cursor, new)
    runs = _runs(stored, indexer, rows.values(), seconds)
    last = max([cursor.last, *(row.checkpoint_id for row in new)])
    leaves = [row for row in rows.values() if not row.children]
    after = _encoded(tables, indexer, leaves, last, cursor.count + len(new), seconds)
    return RunIndex(runs, snapshots, cursor=after, is_appended=True)


def _decoded(text: str) -> Cursor | None:
    try:
        cursor = msgspec.json.decode(text, type=Cursor)
    except msgspec.DecodeError:
        return None
    return cursor if cursor.version == VERSION else None


def _encoded(
    tables: Tables,
    indexer: Indexer,
    heads: Iterable[IndexedRow],
    last: str,
    count: int,
    seconds: dict[str, float],
) -> str:
    found = [
        Head(row.namespace, row.checkpoint_id, row.branch, row.turn, _mark(row))
        for row in sorted(heads, key=lambda row: (row.namespace, row.checkpoint_id))
    ]
    if not tables.finds_appended or not found or len(found) > MAX_HEADS or count >= MAX_ROWS:
        return ""
    # The cursor is stored, so it must not contain what is redacted elsewhere.
    if any(
        identifiers.shown_namespace(one.namespace, indexer.known) != one.namespace
        or identifiers.shown_id(one.checkpoint_id, indexer.known) != one.checkpoint_id
        for one in found
    ):
        return ""
    digest = tables.rows.digest(indexer.thread, last, [one.checkpoint_id for one in found])
    if not digest:
        return ""
    cursor = Cursor(VERSION, last, count, digest, found, seconds)
    return msgspec.json.encode(cursor).decode()


def _mark(row: IndexedRow) -> int:
    writes = sorted((one.task_id, one.path, sorted(one.indexes)) for one in row.attempts)
    return zlib.crc32(repr(writes).encode("utf-8", "surrogateescape"))


def _rows(stored: Rows, thread: str, keys: Sequence[Key]) -> dict[Key, IndexedRow]:
    """The readable rows with these keys, with their tasks."""
    found = {(row.namespace, row.checkpoint_id): row for row in _readable(stored, thread, keys)}
    attempts = _attempts_of(stored, thread, keys)
    for key, row in found.items():
        row.attempts = attempts.get(key, [])
    return found


def _are_linked(stored: Rows, thread: str, rows: dict[Key, IndexedRow], new: Sequence[IndexedRow]) -> bool:
    """Link the new rows. Return whether each continues a branch, or begins a namespace."""
    for row in new:
        parent = rows.get((row.namespace, row.parent_id or ""))
        if parent is None:
            if row.parent_id or stored.first_id(thread, row.namespace) != row.checkpoint_id:
                return False
            row.branch = FIRST_BRANCH
        elif parent.children or parent.checkpoint_id >= row.checkpoint_id:
            return False
        else:
            row.parent, row.branch, row.turn = parent, parent.branch, parent.turn
            parent.children.append(row)
        row.turn += row.metadata.source == "input"
    return True


def _add_parents(stored: Rows, thread: str, rows: Sequence[IndexedRow]) -> None:
    """Read the parents of these heads: their tasks are the nodes that ran before the heads."""
    keys = [(row.namespace, row.parent_id) for row in rows if row.parent_id]
    parents = _rows(stored, thread, keys) if keys else {}
    for row in rows:
        parent = parents.get((row.namespace, row.parent_id or ""))
        if parent is not None and parent.checkpoint_id < row.checkpoint_id:
            row.parent = parent
            parent.children.append(row)


def _seconds(cursor: Cursor, new: Sequence[IndexedRow]) -> dict[str, float]:
    """The duration of each run, with these rows."""
    found = dict(cursor.seconds)
    for row in new:
        found[row.namespace] = found.get(row.namespace, 0.0) + seconds_of([row])
    return found


def _runs(
    stored: Rows, indexer: Indexer, rows: Iterable[IndexedRow], seconds: dict[str, float]
) -> list[IndexedRun]:
    """The runs of these rows, callers first."""
    own = sorted(rows, key=lambda row: (row.namespace, row.checkpoint_id))
    names = list(dict.fromkeys(row.namespace for row in own))
    keys = [(name, stored.first_id(indexer.thread, name)) for name in names]
    firsts = {name: row for (name, _id), row in _rows(stored, indexer.thread, keys).items()}
    return [
        replace(run, seconds=round(seconds.get(name, 0.0), 3))
        for name, run in zip(names, indexer.runs(own, firsts), strict=True)
    ]
