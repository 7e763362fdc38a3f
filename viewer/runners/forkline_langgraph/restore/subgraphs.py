"""Finds the unfinished tasks of a checkpoint, and the checkpoints of the subgraphs that they called."""

from __future__ import annotations

from collections.abc import Sequence

from forkline_langgraph.restore.source_store import Address, Source, Write, WriteRow, parents_in

# Not a task: the id with which answers to any waiting task are stored.
NULL_TASK = "00000000-0000-0000-0000-000000000000"


def unfinished_tasks(writes: Sequence[Write] | Sequence[WriteRow]) -> set[str]:
    """Return the tasks that have begun and not finished: they failed, or wait for an answer."""
    finished = {write.task for write in writes if write.idx >= 0}
    return {write.task for write in writes} - finished - {NULL_TASK}


def inner_checkpoints(source: Source, address: Address, tasks: set[str]) -> list[Address]:
    """Return the last checkpoint of each subgraph that these unfinished tasks of a checkpoint called.

    A subgraph compiled with ``checkpointer=True`` has a namespace without a task. It is included if it has
    unfinished tasks itself.
    """
    latest: dict[str, Address] = {}
    for namespace, identifier, metadata in source.inner(address.thread):
        if parents_in(metadata).get(address.namespace) != address.id:
            continue
        inner = Address(address.thread, str(namespace), str(identifier))
        _node, has_task, task = inner.namespace.partition("|")[0].rpartition(":")
        if task in tasks if has_task else unfinished_tasks(source.writes_of(inner)):
            latest[inner.namespace] = inner
    return list(latest.values())
