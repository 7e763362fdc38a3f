"""Finds the unfinished tasks of a checkpoint, and the checkpoints of subgraphs that a run of it continues."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forkline_langgraph.restore.source_store import ERRORS, INTERRUPTS, Address, Source, WriteRow, parents_in

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request

# Not a task: the id with which answers to any waiting task are stored.
NULL_TASK = "00000000-0000-0000-0000-000000000000"


def unfinished_tasks(writes: Sequence[WriteRow]) -> set[str]:
    """Return the tasks that have begun and not finished: they failed, or wait for an answer."""
    finished = {write.task for write in writes if write.idx >= 0}
    return {write.task for write in writes} - finished - {NULL_TASK}


def waiting_tasks(writes: Sequence[WriteRow]) -> set[str]:
    """Return the tasks that wait for an answer."""
    asked = {write.task for write in writes if write.channel == INTERRUPTS}
    failed = {write.task for write in writes if write.channel == ERRORS}
    return asked & unfinished_tasks(writes) - failed


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
        if task in tasks if has_task else unfinished_tasks(source.write_rows(inner)):
            latest[inner.namespace] = inner
    return list(latest.values())


def remembered_checkpoints(source: Source, address: Address) -> list[Address]:
    """Return the last checkpoint of each subgraph with memory before a checkpoint of the thread's own graph.

    A subgraph compiled with ``checkpointer=True`` begins each time with the state of its last run.
    """
    if address.namespace:
        return []
    latest: dict[str, Address] = {}
    for namespace, identifier, _metadata in source.inner(address.thread):
        if ":" not in str(namespace) and str(identifier) < address.id:
            latest[str(namespace)] = Address(address.thread, str(namespace), str(identifier))
    return list(latest.values())


def can_replay_memory() -> bool:
    """Return whether a replay begins a subgraph with what it remembered, as since LangGraph 1.1.

    Earlier versions would take its last run for the one that is replayed, and run none of its nodes.
    """
    try:
        return importlib.util.find_spec("langgraph._internal._replay") is not None
    except ModuleNotFoundError:
        return False


def replays_memory(source: Source, address: Address, request: Request) -> bool:
    """Return whether a run from a checkpoint begins its subgraphs with what they remember.

    A run with answers continues the subgraphs that wait for them.
    """
    if request["kind"] != "fork" or request.get("answers"):
        return False
    return can_replay_memory() and bool(remembered_checkpoints(source, address))


def continued_checkpoints(source: Source, address: Address, *, with_memory: bool) -> list[Address]:
    """Return the checkpoints of subgraphs that a run from a checkpoint continues, one for each namespace."""
    found = {one.namespace: one for one in remembered_checkpoints(source, address) if with_memory}
    unfinished = unfinished_tasks(source.write_rows(address))
    found |= {one.namespace: one for one in inner_checkpoints(source, address, unfinished)}
    return list(found.values())
