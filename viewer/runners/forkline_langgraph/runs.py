"""Runs, resumes or forks a graph: a fork in a scratch store, everything else on the user's store."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from forkline_langgraph import (
    checkpoints,
    edits,
    entry_points,
    opening,
    publishing,
    recorded,
    running,
    savers,
    scratch_store,
    tool_calls,
)
from forkline_langgraph.checkpoints import CheckpointKey, LoadedValue
from forkline_langgraph.effects import Loadable
from forkline_langgraph.events import Calls
from forkline_langgraph.running import Running
from forkline_runner import effects as accepted_effects
from forkline_runner.messages import Refused
from forkline_runner.model_answers import recorded_answers
from forkline_runner.tool_calls import tool_calls_of

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request's graph. Return the result as text. Raises Refused before anything has run."""
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    if (request.get("options") or {}).get("checkpoints"):
        raise Refused("langgraph.no_checkpoint_choice")
    if calls := tool_calls_of(request, reporter):
        tool_calls.install(calls)
    try:
        with recorded_answers(request, reporter, recorded.model_methods):
            if request["kind"] == "fork" or _continues_copy(request):
                return _fork(request, scratch, reporter)
            return _run_on_user_store(request, scratch, reporter)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _continues_copy(request: Request) -> bool:
    """Return whether a resume continues a fork's scratch store instead of the user's store."""
    return request["kind"] == "resume" and checkpoints.path_of(request) != Path(request["location"]["path"])


def _fork(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a fork in a scratch store, and publish it if the request says so. Return the result."""
    store = scratch.parent / scratch_store.STORE
    if request["checkpoint"].get("stored"):
        # On another host, it is no draft there: what is paid for has to be published.
        with publishing.opened(request["location"]):
            pass
    result = _run_on_copy(request, scratch, store, reporter)
    if into := (request.get("options") or {}).get("into"):
        try:
            publishing.publish(request, store, into, request["job"], reporter)
        except Refused as refused:
            # The run has been paid for: it succeeds, and can be published later from its page.
            reporter.warn("langgraph.not_published", why=[refused.message])
    return result


def _run_on_copy(request: Request, scratch: Path, store: Path, reporter: Reporter) -> str:
    """Run on a copy in a scratch store, without changing the user's store. Return the result.

    The writes of finished nodes are copied as well, so that only the others run, if it is a resume or a fork
    that only answers questions.
    """
    is_edited = bool(request["state"] or (request.get("options") or {}).get("as_node"))
    entry_points.enter_project(request["folder"])
    with ExitStack() as stack:
        # Closed before anything runs: an open transaction would delay the database server's vacuum.
        with checkpoints.opened(checkpoints.path_of(request), scratch) as source:
            address = checkpoints.address_of(source, request)
            namespace = address.namespace
            if namespace:
                address = checkpoints.caller_of(source, address)
            loadable = _checked(request, checkpoints.values_to_load(source, address))
            target = stack.enter_context(closing(scratch_store.created(store)))
            graph = stack.enter_context(entry_points.graph_of(request, address.thread))
            saver = savers.saver_on(target, store, loadable, None, request["branch"])
            is_replay = checkpoints.replays_memory(source, address, request)
            asks = bool(checkpoints.waiting_tasks(source.rows.writes(address)))
            scratch_store.fill(
                source,
                target,
                address,
                with_ancestors=scratch_store.stores_changes_only(graph),
                with_writes=request["kind"] == "resume" or (asks and not is_edited),
                with_memory=is_replay,
                edited=namespace if is_edited else None,
            )
            if request["kind"] == "fork":
                scratch_store.forget_last_answer(target)
        # What the copying stored is not reported.
        saver.reporter = reporter
        one = _running(request, graph, saver, address.thread, reporter)
        if namespace and is_edited:
            edits.edit_inner_graph(one, namespace, request, loadable)
            return one.to_end(None, asks_first=False)
        prepare = _edited if request["kind"] == "fork" else _input_or_answers
        return one.to_end(prepare(one, request, loadable), replays=is_replay)


def _run_on_user_store(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Continue a thread in the user's store, or start one there. Return the result."""
    path = Path(request["location"]["path"])
    thread, values = _thread(request, scratch)
    entry_points.enter_project(request["folder"])
    loadable = _checked(request, values)
    with (
        _user_saver(path, loadable, reporter, request["branch"]) as saver,
        entry_points.graph_of(request, thread) as graph,
    ):
        one = _running(request, graph, saver, thread, reporter)
        return one.to_end(_input_or_answers(one, request, loadable))


def _thread(request: Request, scratch: Path) -> tuple[str, list[LoadedValue]]:
    """Return the thread that a run continues or starts, and the values that it loads. Raises Refused."""
    path = Path(request["location"]["path"])
    is_new = request["kind"] == "run"
    wanted = str((request.get("options") or {}).get("thread") or "")
    is_file = not opening.is_database(path)
    if is_new and is_file and (not path.exists() or not path.stat().st_size):
        return wanted or str(uuid.uuid4()), []
    # Opening refuses a foreign database, to which the engine would add its tables.
    with checkpoints.opened(path, scratch) as source:
        if is_new and not wanted:
            return str(uuid.uuid4()), []
        if is_new:
            head = source.rows.ends(wanted).newest
            values = checkpoints.values_to_load(source, CheckpointKey(wanted, "", head)) if head else []
            return wanted, values
        address = checkpoints.address_of(source, request)
        if address.namespace or address.checkpoint_id != source.rows.ends(address.thread).newest:
            raise Refused("langgraph.not_the_head")
        return address.thread, checkpoints.values_to_load(source, address)


@contextmanager
def _user_saver(path: Path, loadable: Loadable, reporter: Reporter, branch: str) -> Iterator[Any]:
    """Yield the engine's saver on the user's store."""
    if opening.is_database(path):
        with opening.connected(path) as connected:
            yield savers.database_saver_on(connected, path, loadable, reporter, branch)
        return
    with closing(sqlite3.connect(path, check_same_thread=False)) as file:
        yield savers.saver_on(file, path, loadable, reporter, branch)


def _checked(request: Request, values: list[LoadedValue]) -> Loadable:
    """Return what the run may load. Raises Refused if the checkpoint has effects that nobody has accepted."""
    loadable = Loadable(request)
    accepted_effects.refuse_unaccepted(loadable.effects_in(values), request)
    loadable.pin_modules()
    return loadable


def _running(request: Request, graph: Any, saver: Any, thread: str, reporter: Reporter) -> Running:
    settings = entry_points.settings_of(request)
    calls = Calls(reporter, is_recorded="model_calls" in (request.get("options") or {}))
    config = {**settings.config(thread), "callbacks": [calls]}
    copied = graph.copy(update={"checkpointer": saver})
    return Running(copied, config, reporter, settings.stream_options(copied))


def _edited(one: Running, request: Request, loadable: Loadable) -> Any:
    """Apply a fork's edits, and check that the nodes of the plan run next.

    Return what to pass to ``Running.to_end``. Raises Refused.
    """
    options = request.get("options") or {}
    values = edits.typed_values(request["state"] or {}, loadable)
    as_node, answers = options.get("as_node") or None, request.get("answers") or {}
    given = Command(resume=running.resumption(answers, one.waiting())) if answers else None
    if values or as_node:
        if answers:
            raise Refused("langgraph.edit_and_answer")
        edits.apply(one, values, set(options.get("replace") or []), as_node)
    following = one.next_nodes()
    if not following:
        raise Refused("langgraph.nothing_follows")
    # A subgraph's steps are part of one step of the graph that calls it.
    is_inner = bool(checkpoints.namespace_of(request))
    planned = [step["task"] for step in request["steps"] if step["action"] in ("runs", "again")]
    # A unit that finished before counts in the numbers of the others.
    nodes = [edits.node_of(unit, one.graph) for unit in planned]
    if planned and sorted(nodes) != sorted(following) and not (values or as_node or is_inner):
        raise Refused("langgraph.plan_differs", planned=", ".join(planned), found=", ".join(following))
    one.report_steps(following)
    return given


def _input_or_answers(one: Running, request: Request, loadable: Loadable) -> Any:
    """Return what to pass to ``Running.to_end``: a new run's input, answers, or None. Raises Refused."""
    if request["kind"] == "run":
        return running.input_of(one.graph, edits.typed_values(request["inputs"], loadable))
    following = one.next_nodes()
    if not following:
        raise Refused("langgraph.nothing_left")
    one.report_steps(following)
    answers = request.get("answers") or {}
    return Command(resume=running.resumption(answers, one.waiting())) if answers else None
