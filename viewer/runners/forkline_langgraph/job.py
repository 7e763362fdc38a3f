"""Runs, resumes or forks a graph, as a job's request specifies."""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_langgraph.graphs import project_folders
from forkline_langgraph.postgresql import connection
from forkline_langgraph.restore import scratch_store, source_store, subgraphs
from forkline_langgraph.restore.effects import Loadable
from forkline_langgraph.restore.source_store import Address, LoadedValue, Source
from forkline_langgraph.run.run_settings import settings_of
from forkline_runner import effects as accepted_effects
from forkline_runner import project
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_langgraph.run.running import Running
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request

ENGINE = "langgraph"
# The package of the saver that the scratch store is written with.
SAVER = "langgraph-checkpoint-sqlite"
# The first version whose checkpoints are known.
MIN_ENGINE = "0.2.76"


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request with LangGraph. Return the result as text. Raises Refused before anything has run."""
    connection.take(reporter)
    _load_strictly()
    if request["kind"] in ("preflight", "effects", "next"):
        from forkline_langgraph import preflight

        return preflight.check(request, scratch, reporter)
    report_start(reporter)
    refuse_other_location(request)
    if request["kind"] == "publish":
        return _publish(request, source_store.path_of(request), reporter)
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    if (request.get("options") or {}).get("checkpoints"):
        raise Refused("langgraph.no_checkpoint_choice")
    try:
        if request["kind"] == "fork" or continues_copy(request):
            return _fork(request, scratch, reporter)
        return _run_on_user_store(request, scratch, reporter)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _publish(request: Request, store: Path, reporter: Reporter) -> str:
    """Write a fork from its scratch store to the user's store. Return the number of checkpoints as text."""
    from forkline_langgraph.publishing.publish import publish

    options = request["options"]
    written = publish(request, store, options["into"], options["new_thread"], reporter)
    return str(written)


def _fork(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a fork in a scratch store, and publish it if the request says so. Return the result."""
    result = _run_on_copy(request, scratch, reporter)
    options = request.get("options") or {}
    if into := options.get("into"):
        from forkline_langgraph.publishing.publish import publish

        store = scratch.parent / scratch_store.STORE
        try:
            publish(request, store, into, request["job"], reporter)
        except Refused as refused:
            # The run has been paid for: it succeeds, and can be published later from its page.
            reporter.warn("langgraph.not_published", why=[refused.message])
    return result


def continues_copy(request: Request) -> bool:
    """Return whether a resume continues a fork's scratch store instead of the user's store."""
    return request["kind"] == "resume" and source_store.path_of(request) != Path(request["location"]["path"])


def _run_on_copy(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run on a copy in a scratch store, without changing the user's store. Return the result.

    The writes of finished nodes are copied as well, so that only the others run, if it is a resume or a fork
    that only answers questions.
    """
    is_edited = bool(request["state"] or (request.get("options") or {}).get("as_node"))
    project_folders.enter(request["folder"])
    with ExitStack() as stack:
        # Closed before anything runs: an open transaction would delay the database server's vacuum.
        with source_store.opened(source_store.path_of(request), scratch) as source:
            address = source_store.address_of(source, request)
            namespace = address.namespace
            if namespace:
                from forkline_langgraph.run.inner_graph import caller_of

                address = caller_of(source, address)
            loadable = checked(request, values_to_load(source, address))
            store = scratch.parent / scratch_store.STORE
            target = stack.enter_context(closing(scratch_store.created(store)))
            graph = stack.enter_context(graph_of(request, address.thread))
            from forkline_langgraph.restore import saver

            made = saver.saver_on(target, store, loadable, None, request["branch"])
            is_replay = subgraphs.replays_memory(source, address, request)
            asks = bool(subgraphs.waiting_tasks(source.write_rows(address)))
            scratch_store.fill(
                source,
                target,
                address,
                with_ancestors=stores_changes_only(graph),
                with_writes=request["kind"] == "resume" or (asks and not is_edited),
                with_memory=is_replay,
                edited=namespace if is_edited else None,
            )
            if request["kind"] == "fork":
                scratch_store.forget_last_answer(target)
        made.reporter = reporter
        running = _running(request, graph, made, address.thread, reporter)
        if namespace and is_edited:
            from forkline_langgraph.run import inner_graph

            inner_graph.edit(running, namespace, request, loadable)
            return running.to_end(None, asks_first=False)
        prepare = _prepare if request["kind"] == "fork" else _input_or_answers
        return running.to_end(prepare(running, request, loadable), replays=is_replay)


def _prepare(running: Running, request: Request, loadable: Loadable) -> Any:
    """Apply a fork's edits, and check that the nodes of the plan run next.

    Return what to pass to ``Running.to_end``. Raises Refused.
    """
    from langgraph.types import Command

    from forkline_langgraph.run import edits, interrupts

    options = request.get("options") or {}
    values = {name: edits.typed(value, loadable) for name, value in (request["state"] or {}).items()}
    as_node, answers = options.get("as_node") or None, request.get("answers") or {}
    given = Command(resume=interrupts.resumption(answers, running.waiting())) if answers else None
    if values or as_node:
        if answers:
            raise Refused("langgraph.edit_and_answer")
        edits.apply(running, values, set(options.get("replace") or []), as_node)
    following = list(running.state().next)
    if not following:
        raise Refused("langgraph.nothing_follows")
    # A subgraph's steps are part of one step of the graph that calls it.
    is_inner = bool(source_store.namespace_of(request))
    planned = [step["task"] for step in request["steps"] if step["action"] in ("runs", "again")]
    # A unit that finished before counts in the numbers of the others.
    nodes = [edits.node_of(unit, running.graph) for unit in planned]
    if planned and sorted(nodes) != sorted(following) and not (values or as_node or is_inner):
        raise Refused("langgraph.plan_differs", planned=", ".join(planned), found=", ".join(following))
    running.report_steps(following)
    return given


def _run_on_user_store(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Continue a thread in the user's store, or start one there. Return the result."""
    path = Path(request["location"]["path"])
    thread, values = _thread(request, scratch)
    project_folders.enter(request["folder"])
    loadable = checked(request, values)
    with _user_saver(path, loadable, reporter, request["branch"]) as made, graph_of(request, thread) as graph:
        running = _running(request, graph, made, thread, reporter)
        return running.to_end(_input_or_answers(running, request, loadable))


@contextmanager
def _user_saver(path: Path, loadable: Loadable, reporter: Reporter, branch: str) -> Iterator[Any]:
    """Yield the engine's saver on the user's store."""
    from forkline_langgraph.restore import saver

    if connection.is_database(path):
        from forkline_langgraph.postgresql import saver as postgresql

        with connection.connected(path) as connected:
            yield postgresql.saver_on(connected, path, loadable, reporter, branch)
        return
    with closing(sqlite3.connect(path, check_same_thread=False)) as file:
        yield saver.saver_on(file, path, loadable, reporter, branch)


def _input_or_answers(running: Running, request: Request, loadable: Loadable) -> Any:
    """Return what to pass to ``Running.to_end``: a new run's input, answers, or None. Raises Refused."""
    from langgraph.types import Command

    from forkline_langgraph.run import edits, inputs, interrupts

    if request["kind"] == "run":
        values = {name: edits.typed(value, loadable) for name, value in request["inputs"].items()}
        return inputs.input_of(running.graph, values)
    state = running.state()
    if not state.next:
        raise Refused("langgraph.nothing_left")
    running.report_steps(list(state.next))
    answers = request.get("answers") or {}
    if not answers:
        return None
    return Command(resume=interrupts.resumption(answers, running.waiting()))


def _thread(request: Request, scratch: Path) -> tuple[str, list[LoadedValue]]:
    """Return the thread that a run continues or starts, and the values that it loads. Raises Refused."""
    path = Path(request["location"]["path"])
    is_new = request["kind"] == "run"
    wanted = str((request.get("options") or {}).get("thread") or "")
    is_file = not connection.is_database(path)
    if is_new and is_file and (not path.exists() or not path.stat().st_size):
        return wanted or str(uuid.uuid4()), []
    # Opening refuses a foreign database, to which the engine would add its tables.
    with source_store.opened(path, scratch) as source:
        if is_new and not wanted:
            return str(uuid.uuid4()), []
        if is_new:
            head = source.head_of(wanted)
            return wanted, values_to_load(source, Address(wanted, "", head)) if head else []
        address = source_store.address_of(source, request)
        if address.namespace or address.id != source.head_of(address.thread):
            raise Refused("langgraph.not_the_head")
        return address.thread, values_to_load(source, address)


def values_to_load(source: Source, address: Address) -> list[LoadedValue]:
    """Return every stored value that a run from this checkpoint may load."""
    inner = subgraphs.continued_checkpoints(source, address, with_memory=True)
    return [value for one in (address, *inner) for value in source.values_at(one)]


def checked(request: Request, values: list[LoadedValue]) -> Loadable:
    """Return what the run may load. Raises Refused if the checkpoint has effects that nobody has accepted."""
    loadable = Loadable(request)
    accepted_effects.refuse_unaccepted(loadable.effects_in(values), request)
    loadable.pin_modules()
    return loadable


def graph_of(request: Request, thread: str) -> Any:
    """Return a context manager that yields the graph of the request's entry point."""
    from forkline_langgraph.graphs import entry_points

    return entry_points.made_by(request["entry_point"], settings_of(request).config(thread))


def _running(request: Request, graph: Any, made: Any, thread: str, reporter: Reporter) -> Running:
    from forkline_langgraph.report.callbacks import Calls
    from forkline_langgraph.run.running import Running as Made

    settings = settings_of(request)
    config = {**settings.config(thread), "callbacks": [Calls(reporter)]}
    copied = graph.copy(update={"checkpointer": made})
    return Made(copied, config, reporter, settings.stream_options(copied))


def stores_changes_only(graph: Any) -> bool:
    """Return whether a channel of the graph stores only its changes in each checkpoint."""
    return any(type(channel).__name__ == "DeltaChannel" for channel in graph.channels.values())


def refuse_other_location(request: Request) -> None:
    """Raise Refused if the store's path has become a link: the run would read or write elsewhere."""
    path = Path(request["location"]["path"])
    if connection.is_database(path):
        return
    if request["location"]["store_kind"] != "sqlite":
        raise Refused("langgraph.only_sqlite")
    if path.resolve() != path:
        raise Refused("langgraph.location_is_link", path=path, place=path.resolve())


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


def _load_strictly() -> None:
    """Make the engine's serializer load only allowed classes."""
    # Read once, when the engine is imported.
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"


def flush() -> None:
    """Do nothing: the engine stores each checkpoint before it streams it, and waits for the last one."""
