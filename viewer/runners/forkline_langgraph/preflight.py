"""The preflight check: what loading a checkpoint would import, and what its graph would run. Nothing runs.

The first phase lists the effects and imports nothing that the checkpoint names. If a person has accepted all
of them, the second phase imports the project's code and reads the checkpoint from a copy.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_langgraph import job
from forkline_langgraph.graphs import project_folders
from forkline_langgraph.graphs.compiled_graph import compiled_graph
from forkline_langgraph.restore import scratch_store, source_store, subgraphs
from forkline_langgraph.restore.effects import Loadable
from forkline_langgraph.restore.source_store import Address, Source
from forkline_runner import effects as accepted_effects
from forkline_runner.findings import MAX_NAMES, Report, recorded_imports, report_findings
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def check(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Report the findings in one event. Return an empty result."""

    def find(report: Report) -> None:
        report["engine_version"] = job.report_start(reporter)
        _check(report, request, scratch, reporter)

    return report_findings(reporter, scratch, find)


def _check(report: Report, request: Request, scratch: Path, reporter: Reporter) -> None:
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    project_folders.enter(request["folder"])
    if not request["checkpoint"]["source"]:
        _check_graph(report, request, scratch, None, Loadable(request), reporter)
        return
    job.refuse_other_location(request)
    with source_store.opened(source_store.path_of(request), scratch) as source:
        address = source_store.address_of(source, request)
        if address.namespace:
            from forkline_langgraph.run.inner_graph import caller_of

            # A fork of a subgraph runs the graph that waits for it.
            address = caller_of(source, address)
        loadable = Loadable(request)
        found = loadable.effects_in(job.values_to_load(source, address))
        report["effects"] = accepted_effects.plain(found, request)
        if request["kind"] == "effects" or accepted_effects.unaccepted(found, request):
            report["is_complete"] = False
            return
        loadable.pin_modules()
        if forgotten := _forgotten(source, address):
            report["notes"].append({"what": "memory", "detail": ", ".join(forgotten)})
    _check_graph(report, request, scratch, address, loadable, reporter)


def _check_graph(
    report: Report,
    request: Request,
    scratch: Path,
    address: Address | None,
    loadable: Loadable,
    reporter: Reporter,
) -> None:
    """Load the graph, and read from a copy of the checkpoint what it would run next."""
    thread = address.thread if address else "preflight"
    with recorded_imports(report), job.graph_of(request, thread) as graph:
        from forkline_langgraph.graphs import schema
        from forkline_langgraph.run import edits, inner_graph

        namespace = source_store.namespace_of(request)
        edited = inner_graph.subgraph_at(graph, namespace) if namespace else graph
        report["nodes"] = edits.nodes_of(edited)[:MAX_NAMES]
        report["channels"] = schema.channels_of(edited)
        report.update(schema.settings_of(graph))
        if address is None:
            # The same for every checkpoint: stored once, with the check of a new run.
            report["graph"] = compiled_graph(graph)
        else:
            report["next"] = _next(graph, request, scratch, address, loadable)
            if request["kind"] == "next" and namespace:
                raise Refused("langgraph.next_of_subgraph")
            if request["kind"] == "next":
                from forkline_langgraph.run.next_nodes import next_by_node

                found = next_by_node(graph, request, scratch, address, loadable, reporter)
                report["next_by_node"] = found
            report["notes"].insert(0, {"what": "next", "detail": ", ".join(report["next"])})


def _forgotten(source: Source, address: Address) -> list[str]:
    """Return the subgraphs that a fork of a checkpoint begins without what they remember."""
    if subgraphs.can_replay_memory():
        return []
    return [one.namespace for one in subgraphs.remembered_checkpoints(source, address)][:MAX_NAMES]


def _next(graph: Any, request: Request, scratch: Path, address: Address, loadable: Loadable) -> list[str]:
    """Return the nodes that would run next from a copy of the checkpoint. Raises Refused."""
    from forkline_langgraph.restore import saver

    scratch.mkdir(mode=0o700, exist_ok=True)
    store = scratch / scratch_store.STORE
    with (
        source_store.opened(source_store.path_of(request), scratch) as source,
        closing(scratch_store.created(store)) as target,
    ):
        made = saver.saver_on(target, store, loadable, None, "")
        scratch_store.fill(source, target, address, with_ancestors=job.stores_changes_only(graph))
        copied = graph.copy(update={"checkpointer": made})
        try:
            state = copied.get_state({"configurable": {"thread_id": address.thread}})
        except Refused:
            raise
        except Exception as error:
            raise Refused("langgraph.state_unreadable", kind=type(error).__name__, error=error) from error
    return list(state.next)[:MAX_NAMES]
