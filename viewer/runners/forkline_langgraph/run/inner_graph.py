"""Edits of a subgraph's own state, while the graph that called it waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forkline_langgraph.restore import source_store
from forkline_langgraph.restore.source_store import Address, Source
from forkline_langgraph.restore.subgraphs import inner_checkpoints, unfinished_tasks
from forkline_langgraph.run import edits
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_langgraph.restore.effects import Loadable
    from forkline_langgraph.run.running import Running
    from viewer.host.jobs.request import Request


def caller_of(source: Source, inner: Address) -> Address:
    """Return the checkpoint of the thread's own graph that waits for this subgraph. Raises Refused."""
    for namespace, identifier, metadata in source.inner(inner.thread):
        if (namespace, identifier) == (inner.namespace, inner.id):
            outer = Address(inner.thread, "", str(source_store.parents_in(metadata).get("") or ""))
            tasks = unfinished_tasks(source.write_rows(outer)) if outer.id else set()
            if inner in inner_checkpoints(source, outer, tasks):
                return outer
    raise Refused("langgraph.called_by_graph")


def subgraph_at(graph: Any, namespace: str) -> Any:
    """Return the subgraph of this namespace. Raises Refused if the graph has none there."""
    names = "|".join(part.partition(":")[0] for part in namespace.split("|"))
    found = dict(graph.get_subgraphs(recurse=True)).get(names)
    if found is None:
        raise Refused("langgraph.no_such_node", node=names)
    return found


class InnerGraph:
    """The subgraph of a namespace, with the part of ``Running`` that an edit needs."""

    def __init__(self, outer: Running, namespace: str) -> None:
        self.graph = subgraph_at(outer.graph, namespace).copy(
            update={"checkpointer": outer.graph.checkpointer}
        )
        configurable = {**outer.config["configurable"], "checkpoint_ns": namespace}
        self.config = {**outer.config, "configurable": configurable}
        self._outer = outer

    def state(self) -> Any:
        """Return the state of the subgraph's last checkpoint."""
        return self._outer.graph.get_state(self.config)

    def update(self, values: Any, as_node: str | None) -> None:
        """Write a checkpoint of the subgraph, with ``update_state`` of the graph that calls it."""
        self._outer.update(values, as_node, self.config)


def edit(outer: Running, namespace: str, request: Request, loadable: Loadable) -> None:
    """Apply a request's edits to a subgraph. Raises Refused."""
    options = request.get("options") or {}
    values = {name: edits.typed(value, loadable) for name, value in (request["state"] or {}).items()}
    if request.get("answers"):
        raise Refused("langgraph.edit_and_answer")
    inner = InnerGraph(outer, namespace)
    edits.apply(inner, values, set(options.get("replace") or []), options.get("as_node") or None)
    if not inner.state().next:
        raise Refused("langgraph.nothing_follows")
    outer.report_steps(list(outer.state().next))
