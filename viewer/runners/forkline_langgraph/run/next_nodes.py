"""Which nodes would run next after an edited state, for each node that the edit can be attributed to.

Each answer is ``get_state(fork).next`` on a separate copy in memory. No node runs; conditional edges do,
with the edited state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_langgraph import job
from forkline_langgraph.report.events import shown
from forkline_langgraph.restore import scratch_store, source_store, subgraphs
from forkline_langgraph.run import edits
from forkline_langgraph.run.running import Running, units_of
from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_langgraph.restore.effects import Loadable
    from forkline_langgraph.restore.source_store import Address, Source
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request

MAX_NODES = 60
MAX_ERROR = 500

Found = dict[str, Any]


def next_by_node(
    graph: Any, request: Request, scratch: Path, address: Address, loadable: Loadable, reporter: Reporter
) -> list[Found]:
    """Return the outcome without a node, then that for each node.

    An outcome has ``node``, ``next`` (units), and ``after`` (edited channels) or an ``error``.
    """
    values = {name: edits.typed(value, loadable) for name, value in (request["state"] or {}).items()}
    replaced = set((request.get("options") or {}).get("replace") or [])
    found = []
    with source_store.opened(source_store.path_of(request), scratch) as source:
        for node in ["", *edits.nodes_of(graph)[:MAX_NODES]]:
            is_edited = bool(values or node)
            for running in _copies(graph, source, scratch, address, loadable, reporter, is_edited=is_edited):
                found.append({"node": node, **_outcome(running, values, replaced, node)})
    return found


def _copies(
    graph: Any,
    source: Source,
    scratch: Path,
    address: Address,
    loadable: Loadable,
    reporter: Reporter,
    *,
    is_edited: bool,
) -> Iterator[Running]:
    """Yield the graph on one copy of the checkpoint, which is closed afterwards."""
    from forkline_langgraph.restore import saver

    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as target:
        made = saver.saver_on(target, scratch / scratch_store.STORE, loadable, None, "")
        scratch_store.fill(
            source,
            target,
            address,
            with_ancestors=job.stores_changes_only(graph),
            with_writes=not is_edited and bool(subgraphs.waiting_tasks(source.write_rows(address))),
            edited="" if is_edited else None,
        )
        config = {"configurable": {"thread_id": address.thread}}
        yield Running(graph.copy(update={"checkpointer": made}), config, reporter)


def _outcome(running: Running, values: dict[str, Any], replaced: set[str], node: str) -> Found:
    try:
        if values or node:
            edits.apply(running, dict(values), replaced, node or None)
        state = running.state()
    except Refused as refused:
        return {"next": [], "error": shortened(str(refused), MAX_ERROR)}
    except Exception as error:
        return {"next": [], "error": shortened(f"{type(error).__name__}: {error}", MAX_ERROR)}
    after = {name: shown(state.values.get(name)) for name in values} if isinstance(state.values, dict) else {}
    return {"next": units_of(state.next), "after": after, "error": ""}
