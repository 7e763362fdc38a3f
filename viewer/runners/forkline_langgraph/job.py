"""Does what a job's request says, once the installed engine and the location are known to be right."""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import forkline_langgraph
from forkline_langgraph import checkpoints, entry_points
from forkline_langgraph.checkpoints import CheckpointKey, Source
from forkline_langgraph.effects import Loadable
from forkline_runner import effects as accepted_effects
from forkline_runner import findings, project
from forkline_runner.findings import MAX_NAMES, PREFLIGHT_KINDS, Report, recorded_imports, report_findings
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# The installed engine: which version it is, how it loads values, and its import before a job needs it.
#
# prewarm_runner.py calls ``load`` and ``begin``.


ENGINE = "langgraph"
# The package of the saver that the scratch store is written with.
SAVER = "langgraph-checkpoint-sqlite"
# The first version whose checkpoints are known.
MIN_ENGINE = "0.2.76"
# Imported only by a first run. Only projects with a database have its driver and saver.
LATE = (
    *(f"{ENGINE}.{name}" for name in ("graph", "func", "prebuilt", "pregel.debug", "checkpoint.postgres")),
    *("langchain_core.messages", "langchain_core.tracers.log_stream"),
    *("asyncio", "sqlite3", "encodings.idna", "concurrent.futures.thread", "importlib.metadata"),
)


def report_start(reporter: Reporter) -> str:
    """Report the installed versions. Return the engine's.

    Raises Refused if it, or its SQLite saver, is missing, or if it is too old.
    """
    return project.report_start(
        reporter,
        [ENGINE, SAVER],
        MIN_ENGINE,
        label="LangGraph",
        missing="langgraph.not_installed",
        too_old="langgraph.version_too_old",
    )


def load_strictly() -> None:
    """Make the engine's serializer load only allowed classes."""
    # Read once, when the engine is imported.
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"


def load() -> None:
    """Import the engine. Raises ImportError if it, or its SQLite saver, is not installed."""
    load_strictly()
    importlib.import_module(f"{ENGINE}.checkpoint.sqlite")
    for part in pkgutil.iter_modules(forkline_langgraph.__path__, "forkline_langgraph."):
        importlib.import_module(part.name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)


def begin() -> None:
    """Keep keys out of a preflight check. Call it in a job's process."""
    findings.forbid_keys_and_hosts()


# The preflight check: what loading a checkpoint would import, and what its graph would run. Nothing runs.
#
# The first phase lists the effects and imports nothing that the checkpoint names. If a person has accepted
# all of them, the second phase imports the project's code and reads the checkpoint from a copy.


def check(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Report the findings in one event. Return an empty result."""

    def find(report: Report) -> None:
        report["engine_version"] = report_start(reporter)
        _check(report, request, scratch, reporter)

    return report_findings(reporter, scratch, find)


def _check(report: Report, request: Request, scratch: Path, reporter: Reporter) -> None:
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    entry_points.enter_project(request["folder"])
    if not request["checkpoint"]["source"]:
        _check_new_run(report, request)
        return
    checkpoints.refuse_other_location(request)
    with checkpoints.opened(checkpoints.path_of(request), scratch) as source:
        address = checkpoints.address_of(source, request)
        if namespace := address.namespace:
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
    _check_fork(report, request, scratch, address, namespace, loadable, reporter)


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
    namespace: str,
    loadable: Loadable,
    reporter: Reporter,
) -> None:
    """Load the graph, and read from a copy of the checkpoint what it would run next.

    ``namespace`` is that of the subgraph whose checkpoint is forked; empty for the thread's own graph.
    """
    with recorded_imports(report), entry_points.graph_of(request, address.thread) as graph:
        from forkline_langgraph import graph_findings, runs

        edited = runs.subgraph_at(graph, namespace) if namespace else graph
        report.update(graph_findings.description_of(graph, edited))
        with checkpoints.opened(checkpoints.path_of(request), scratch) as source:
            copied = source, scratch, address, loadable
            report["next"] = graph_findings.next_nodes(graph, *copied)
            if request["kind"] == "preflight":
                report["tools"] = graph_findings.tools_by_node(graph, report["next"])
            if request["kind"] == "next":
                if namespace:
                    raise Refused("langgraph.next_of_subgraph")
                report["next_by_node"] = graph_findings.next_by_node(graph, request, *copied, reporter)
        report["notes"].insert(0, {"what": "next", "detail": ", ".join(report["next"])})


# The job.


# The kinds of steps that count towards a limit.
STEPS = ("node",)


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request with LangGraph. Return the result as text. Raises Refused before anything has run."""
    checkpoints.take(reporter)
    load_strictly()
    if request["kind"] in PREFLIGHT_KINDS:
        return check(request, scratch, reporter)
    report_start(reporter)
    if request["kind"] == "replay":
        from forkline_langgraph import replay

        return replay.replay_call(request, reporter)
    checkpoints.refuse_other_location(request)
    # They import the engine, which may have been missing or too old.
    from forkline_langgraph import runs, savers

    if request["kind"] == "publish":
        options = request["options"]
        store = checkpoints.path_of(request)
        return str(savers.publish(request, store, options["into"], options["new_thread"], reporter))
    return runs.run(request, scratch, reporter)


def flush() -> None:
    """Do nothing: the engine stores each checkpoint before it streams it, and waits for the last one."""
