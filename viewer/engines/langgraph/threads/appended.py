"""Lists what was appended to a thread since it was listed, if nothing else has changed.

A listing leaves a state, which Forkline stores with the run: the heads of all branches, and a digest of the
other rows. If the digest is the same, only the heads and the newer rows are read. A fork, a deleted or
replaced row, or a write after an older checkpoint changes the digest or starts a branch, so that the whole
thread is listed.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from viewer.engines.langgraph.format import identifiers
from viewer.engines.langgraph.format.super_steps import attempts_in
from viewer.engines.langgraph.tables.protocol import MAX_APPENDED, MAX_ROWS, AppendedRows, Tables
from viewer.engines.langgraph.threads.rows import FIRST_BRANCH, IndexedRow, Indexer, metadata_of
from viewer.engines.langgraph.threads.usage import exact_seconds_of
from viewer.stores.indexed_run import IndexedRun
from viewer.stores.protocol import RunIndex

# Another version makes states invalid. It has to change with what a listing finds in a row.
VERSION = 1
# The heads of a thread with more branches and subgraphs take too long to read.
MAX_HEADS = 200
Key = tuple[str, str]


class Head(msgspec.Struct, array_like=True, frozen=True):
    """The newest checkpoint of a branch. ``mark`` changes with its writes."""

    namespace: str
    checkpoint_id: str
    branch: str
    turn: int
    mark: int


class State(msgspec.Struct, array_like=True, frozen=True):
    """A thread when it was listed, with the duration of each of its runs."""

    version: int
    last: str
    count: int
    digest: str
    heads: list[Head]
    seconds: dict[str, float]


def state_of(tables: Tables, indexer: Indexer, rows: Sequence[IndexedRow]) -> str:
    """The state of a thread with these linked rows; empty if its next listing has to be complete."""
    by_namespace: dict[str, list[IndexedRow]] = defaultdict(list)
    for row in rows:
        by_namespace[row.namespace].append(row)
    seconds = {namespace: exact_seconds_of(own) for namespace, own in by_namespace.items()}
    last = max((row.checkpoint_id for row in rows), default="")
    return _state(tables, indexer, (row for row in rows if not row.children), last, len(rows), seconds)


def appended_index(tables: Tables, indexer: Indexer, before: str) -> RunIndex | None:
    """The rows that were appended since a state, and the heads that changed with them.

    None if the state does not suffice to list them.
    """
    appended, state = tables.appended, _decoded(before)
    if appended is None or state is None:
        return None
    thread = indexer.thread
    if appended.digest(thread, state.last, [one.checkpoint_id for one in state.heads]) != state.digest:
        return None
    new_keys = appended.ids_after(thread, state.last)
    if len(new_keys) > MAX_APPENDED or state.count + len(new_keys) >= MAX_ROWS:
        return None
    head_keys = [(one.namespace, one.checkpoint_id) for one in state.heads]
    rows = _rows(appended, thread, [*head_keys, *new_keys])
    if len(rows) != len(head_keys) + len(new_keys):
        return None
    for head in state.heads:
        row = rows[head.namespace, head.checkpoint_id]
        row.branch, row.turn = head.branch, head.turn
    new = [rows[key] for key in sorted(new_keys)]
    if not _are_linked(appended, thread, rows, new):
        return None
    marks = {(head.namespace, head.checkpoint_id): head.mark for head in state.heads}
    if not new and all(_mark(rows[key]) == mark for key, mark in marks.items()):
        return RunIndex([], [], state=before, is_appended=True)
    heads = [rows[key] for key in head_keys]
    _add_parents(appended, thread, heads)
    indexer.add_nodes(tables.namespaces(thread))
    # A new subgraph may name a pending task of any head.
    snapshots = indexer.columns_of([*heads, *new])
    seconds = _seconds(state, new)
    runs = _runs(appended, indexer, rows.values(), seconds)
    last = max([state.last, *(row.checkpoint_id for row in new)])
    leaves = [row for row in rows.values() if not row.children]
    after = _state(tables, indexer, leaves, last, state.count + len(new), seconds)
    return RunIndex(runs, snapshots, state=after, is_appended=True)


def _decoded(text: str) -> State | None:
    try:
        state = msgspec.json.decode(text, type=State)
    except msgspec.DecodeError:
        return None
    return state if state.version == VERSION else None


def _state(
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
    if tables.appended is None or not found or len(found) > MAX_HEADS or count >= MAX_ROWS:
        return ""
    # The state is stored, so it must not contain what is redacted elsewhere.
    if any(
        identifiers.shown_namespace(one.namespace, indexer.known) != one.namespace
        or identifiers.shown_id(one.checkpoint_id, indexer.known) != one.checkpoint_id
        for one in found
    ):
        return ""
    digest = tables.appended.digest(indexer.thread, last, [one.checkpoint_id for one in found])
    if not digest:
        return ""
    state = State(VERSION, last, count, digest, found, seconds)
    return msgspec.json.encode(state).decode()


def _mark(row: IndexedRow) -> int:
    writes = sorted((one.task_id, one.path, sorted(one.indexes)) for one in row.attempts)
    return zlib.crc32(repr(writes).encode("utf-8", "surrogateescape"))


def _rows(appended: AppendedRows, thread: str, keys: Sequence[Key]) -> dict[Key, IndexedRow]:
    """The readable rows with these keys, with their tasks."""
    found = {
        (one.namespace, one.checkpoint_id): IndexedRow(
            one.namespace, one.checkpoint_id, one.parent_id, one.size, metadata_of(one.metadata), one.mark
        )
        for one in appended.checkpoints(thread, keys)
        if one.checkpoint_id.isprintable() and len(one.checkpoint_id) <= identifiers.MAX_ID_LENGTH
    }
    writes: dict[Key, list[tuple[str, str, int]]] = defaultdict(list)
    for namespace, own_id, task, path, index in appended.tasks(thread, keys):
        writes[namespace, own_id].append((task, path, index))
    for key, row in found.items():
        row.attempts = attempts_in(writes[key])
    return found


def _are_linked(
    appended: AppendedRows, thread: str, rows: dict[Key, IndexedRow], new: Sequence[IndexedRow]
) -> bool:
    """Link the new rows. Return whether each continues a branch, or begins a namespace."""
    for row in new:
        parent = rows.get((row.namespace, row.parent_id or ""))
        if parent is None:
            if row.parent_id or appended.first_id(thread, row.namespace) != row.checkpoint_id:
                return False
            row.branch = FIRST_BRANCH
        elif parent.children or parent.checkpoint_id >= row.checkpoint_id:
            return False
        else:
            row.parent, row.branch, row.turn = parent, parent.branch, parent.turn
            parent.children.append(row)
        row.turn += row.metadata.source == "input"
    return True


def _add_parents(appended: AppendedRows, thread: str, rows: Sequence[IndexedRow]) -> None:
    """Read the parents of these heads: their tasks are the nodes that ran before the heads."""
    keys = [(row.namespace, row.parent_id) for row in rows if row.parent_id]
    parents = _rows(appended, thread, keys) if keys else {}
    for row in rows:
        parent = parents.get((row.namespace, row.parent_id or ""))
        if parent is not None and parent.checkpoint_id < row.checkpoint_id:
            row.parent = parent
            parent.children.append(row)


def _seconds(state: State, new: Sequence[IndexedRow]) -> dict[str, float]:
    """The duration of each run, with these rows."""
    found = dict(state.seconds)
    for row in new:
        found[row.namespace] = found.get(row.namespace, 0.0) + exact_seconds_of([row])
    return found


def _runs(
    appended: AppendedRows, indexer: Indexer, rows: Iterable[IndexedRow], seconds: dict[str, float]
) -> list[IndexedRun]:
    """The runs of these rows, callers first."""
    own = sorted(rows, key=lambda row: (row.namespace, row.checkpoint_id))
    names = list(dict.fromkeys(row.namespace for row in own))
    keys = [(name, appended.first_id(indexer.thread, name)) for name in names]
    firsts = {name: row for (name, _id), row in _rows(appended, indexer.thread, keys).items()}
    return [
        replace(run, seconds=round(seconds.get(name, 0.0), 3))
        for name, run in zip(names, indexer.runs(own, firsts), strict=True)
    ]
