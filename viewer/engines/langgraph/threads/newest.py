"""Lists the newest checkpoints of a long thread. Of the others, only the ids and parents are read."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from viewer.engines.langgraph.format import identifiers
from viewer.engines.langgraph.format.super_steps import Attempt, attempts_in
from viewer.engines.langgraph.tables.protocol import Tables
from viewer.engines.langgraph.threads.rows import (
    IndexedRow,
    Indexer,
    Metadata,
    linked,
    metadata_of,
    status_of,
)
from viewer.stores.indexed_run import IndexedRun
from viewer.stores.protocol import RunIndex

# A shorter thread is listed completely in about the same time.
MIN_CHECKPOINTS = 1_000
# Twice as many rows as a page shows, and the newest branches whose ends are listed with them.
MAX_NEWEST, MAX_BRANCHES = 240, 300


def newest_index(tables: Tables, indexer: Indexer) -> RunIndex | None:
    """The outline and newest checkpoints of a thread's own graph; None if the thread is not long.

    The turns of the checkpoints are not known yet.
    """
    rows = _outlined(tables, indexer.thread)
    if len(rows) < MIN_CHECKPOINTS:
        return None
    shown = _shown_first(rows)
    _fill(tables, indexer.thread, _with_parents(shown))
    indexer.add_nodes(tables.namespaces(indexer.thread))
    for row in shown:
        row.turn = 0
    return RunIndex([_run(indexer, rows)], indexer.columns_of(shown), _outline(indexer, rows))


def attempts_of(
    tables: Tables, thread: str, ids: Sequence[str] | None = None
) -> Mapping[tuple[str, str], list[Attempt]]:
    """The tasks of each checkpoint of a thread, by namespace and id; or of those with these ids."""
    found: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for namespace, checkpoint_id, task, path, index in tables.tasks(thread, ids):
        found[namespace, checkpoint_id].append((task, path, index))
    return {at: attempts_in(writes) for at, writes in found.items()}


def _outlined(tables: Tables, thread: str) -> list[IndexedRow]:
    """The linked rows of a thread's own graph, oldest first, with nothing but their ids."""
    unread = Metadata()
    rows = [
        IndexedRow("", own_id, parent_id or None, 0, unread, "")
        for own_id, parent_id in tables.parents(thread)
        if own_id and own_id.isprintable() and len(own_id) <= identifiers.MAX_ID_LENGTH
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
    ids = list(by_id)
    for one in tables.checkpoints(thread, ids):
        if row := by_id.get(one.checkpoint_id):
            row.size, row.metadata, row.mark = one.size, metadata_of(one.metadata), one.mark
    for (_namespace, own_id), attempts in attempts_of(tables, thread, ids).items():
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
