"""The preflight check: what loading a checkpoint would import, and what its graph would run. Nothing runs.

The first phase lists the effects and imports nothing that the checkpoint names. If a person has accepted all
of them, the second phase imports the project's code and reads the checkpoint from a copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forkline_langgraph import checkpoints, engine, entry_points, opening
from forkline_langgraph.checkpoints import CheckpointKey, Source
from forkline_langgraph.effects import Loadable
from forkline_runner import effects as accepted_effects
from forkline_runner.findings import MAX_NAMES, Report, recorded_imports, report_findings
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request


def check(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Report the findings in one event. Return an empty result."""

    def find(report: Report) -> None:
        report["engine_version"] = engine.report_start(reporter)
        _check(report, request, scratch, reporter)

    return report_findings(reporter, scratch, find)


def _check(report: Report, request: Request, scratch: Path, reporter: Reporter) -> None:
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    entry_points.enter_project(request["folder"])
    if not request["checkpoint"]["source"]:
        _check_new_run(report, request)
        return
    opening.refuse_other_location(request)
    with checkpoints.opened(checkpoints.path_of(request), scratch) as source:
        address = checkpoints.address_of(source, request)
        if address.namespace:
            # A fork of a subgraph runs the graph that waits for it.
            address = checkpoints.caller_of(source, address)
        loadable = Loadable(request)
        found = loadable.effects_in(checkpoints.values_to_load(source, address))
        report["effects"] = accepted_effects.plain(found, request)
        if request["kind"] == "effects" or accepted_effects.unaccepted(found, request):
            report["is_complete"] = False
            return
        loadable.pin_modules()
        if forgotten := _forgotten(source, address):
            report["notes"].append({"what": "memory", "detail": ", ".join(forgotten)})
    _check_fork(report, request, scratch, address, loadable, reporter)


def _forgotten(source: Source, address: CheckpointKey) -> list[str]:
    """Return the subgraphs that a fork of a checkpoint begins without what they remember."""
    if checkpoints.can_replay_memory():
        return []
    return [one.namespace for one in checkpoints.remembered_checkpoints(source, address)][:MAX_NAMES]


def _check_new_run(report: Report, request: Request) -> None:
    """Load the graph, and describe it: the same for every checkpoint, so this is stored once."""
    with recorded_imports(report), entry_points.graph_of(request, "preflight") as graph:
        # Imports the engine, as the project's code has done.
        from forkline_langgraph import graph_findings

        report.update(graph_findings.description_of(graph, graph), graph=graph_findings.compiled_graph(graph))


def _check_fork(
    report: Report,
    request: Request,
    scratch: Path,
    address: CheckpointKey,
    loadable: Loadable,
    reporter: Reporter,
) -> None:
    """Load the graph, and read from a copy of the checkpoint what it would run next."""
    namespace = checkpoints.namespace_of(request)
    with recorded_imports(report), entry_points.graph_of(request, address.thread) as graph:
        from forkline_langgraph import edits, graph_findings

        edited = edits.subgraph_at(graph, namespace) if namespace else graph
        report.update(graph_findings.description_of(graph, edited))
        with checkpoints.opened(checkpoints.path_of(request), scratch) as source:
            copied = source, scratch, address, loadable
            report["next"] = graph_findings.next_nodes(graph, *copied)
            if request["kind"] == "next":
                if namespace:
                    raise Refused("langgraph.next_of_subgraph")
                report["next_by_node"] = graph_findings.next_by_node(graph, request, *copied, reporter)
        report["notes"].insert(0, {"what": "next", "detail": ", ".join(report["next"])})
