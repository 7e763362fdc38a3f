"""Runs, resumes or forks a graph: a fork in a scratch store, everything else on the user's store."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from forkline_langgraph import checkpoints, entry_points, recorded, running, savers, scratch_store
from forkline_langgraph.checkpoints import TASKS, CheckpointKey, LoadedValue
from forkline_langgraph.effects import Loadable, NamedType
from forkline_langgraph.running import Calls, Running, next_nodes
from forkline_runner import effects as accepted_effects
from forkline_runner.calls import recorded_answers, tool_calls_of
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# The keys with which viewer/engines/langgraph/decoding.py represents an object.
TYPE, FIELDS, OPAQUE = "__type__", "fields", "__opaque__"
# Classes that are made of a text with ``fromisoformat``, and of a list with several arguments.
FROM_TEXT = {"datetime.datetime", "datetime.date", "datetime.time"}
FROM_SEVERAL = {"datetime.date", "datetime.timedelta", "datetime.timezone", "re.compile"}
START, END = "__start__", "__end__"


@dataclass(frozen=True)
class Pending:
    """What runs after a checkpoint: nodes, and tasks that were sent. ``last`` are the nodes that ran last."""

    nodes: tuple[str, ...]
    sends: tuple[Any, ...]
    last: tuple[str, ...]


@dataclass(frozen=True)
class Edges:
    """Where the edges of nodes lead. ``open`` if a condition may lead to any node.

    ``commands`` are the nodes that a node declares to choose itself. ``joins`` if an edge waits for others.
    """

    fixed: frozenset[str]
    conditional: frozenset[str]
    open: bool
    commands: frozenset[str]
    joins: bool

    def may_lead_to(self, node: str) -> bool:
        """Return whether an edge, and not a node, may have chosen this node."""
        if node in self.fixed or node in self.conditional:
            return True
        return self.open and node not in self.commands


def apply(
    running: Running | InnerGraph, values: Mapping[str, Any], replaced: set[str], as_node: str | None
) -> None:
    """Write a checkpoint with these values. Channels in ``replaced`` are set without their reducers.

    The edges of ``as_node``, by default of the node that ran last, decide again what runs next. What a node
    had chosen itself stays, unless ``as_node`` is another node. Raises Refused if the graph does not accept
    the values.
    """
    unknown = sorted(set(values) - set(running.graph.channels))
    if unknown:
        raise Refused("langgraph.no_such_channel", channels=", ".join(unknown))
    if as_node is not None and as_node not in running.graph.nodes:
        raise Refused("langgraph.no_such_node", node=as_node)
    try:
        pending = _pending(running)
        if START in pending.nodes and _is_state_graph(running.graph):
            # The input is read first: the new checkpoint would not have it.
            running.update(_saved(running).checkpoint["channel_values"][START], START)
            as_node, pending = as_node or START, Pending((), (), ())
        writer, kept = _attribution(running.graph, pending, as_node)
        updates = dict(values)
        for name in replaced & set(values):
            if has_reducer(running.graph.channels[name]):
                updates[name] = _replacing(running, name, updates[name])
        update = {name: value for name, value in updates.items() if value is not _DONE}
        running.update(Command(update=update, goto=kept) if kept else update, writer)
    except Refused:
        raise
    except Exception as error:
        if "mbiguous" in str(error):
            raise _unclear(nodes_of(running.graph)) from error
        raise Refused("langgraph.edit_failed", kind=type(error).__name__, error=error) from error


def _attribution(graph: Any, pending: Pending, as_node: str | None) -> tuple[str | None, list[Any]]:
    """Return the node that an edit is attributed to, and what runs next besides what its edges decide.

    The node is None if the engine chooses it. Raises Refused if it is unclear which node it is.
    """
    everything = [*pending.nodes, *pending.sends]
    if not _is_state_graph(graph) or (as_node and as_node not in pending.last):
        return as_node, []
    if not everything:
        if as_node is None and len(pending.last) > 1:
            raise _unclear(pending.last)
        return as_node, []
    edges = _edges_of(graph.builder, pending.last)
    if as_node is None and not _always_next(graph.builder, edges) <= set(pending.nodes):
        # Not the nodes that ran last have led here, but another edit.
        return _without_effect(graph.builder, pending), everything
    if as_node is None and len(pending.last) > 1:
        return _one_of(graph.builder, pending)
    return as_node, [one for one in everything if not edges.may_lead_to(getattr(one, "node", one))]


def _one_of(builder: Any, pending: Pending) -> tuple[str, list[Any]]:
    """Return one of several nodes that ran last, and what runs next besides what its edges decide.

    Only conditions decide again, so it is the node that has some. Raises Refused if several have: before 0.6,
    the engine would choose one of them at random.
    """
    deciding = [
        name for name in pending.last if (found := _edges_of(builder, [name])).conditional or found.open
    ]
    if len(deciding) > 1:
        raise _unclear(deciding)
    writer = deciding[0] if deciding else pending.last[0]
    own = _edges_of(builder, [writer])
    others = _edges_of(builder, [name for name in pending.last if name != writer])
    nodes = [name for name in pending.nodes if name in others.fixed or not own.may_lead_to(name)]
    sends = [one for one in pending.sends if not (deciding and own.may_lead_to(one.node))]
    return writer, [*nodes, *sends]


def _pending(running: Running | InnerGraph) -> Pending:
    checkpoint = _saved(running).checkpoint
    sends = list(checkpoint["channel_values"].get(TASKS) or checkpoint.get("pending_sends") or [])
    nodes = running.next_nodes()
    for send in sends:
        if send.node in nodes:
            nodes.remove(send.node)
    return Pending(tuple(nodes), tuple(sends), tuple(_last_nodes(running.graph, checkpoint)))


def _last_nodes(graph: Any, checkpoint: Mapping[str, Any]) -> list[str]:
    """Return the nodes that ran in the last step; the start if none has run."""
    seen = {
        name: max(map(_step_of, versions.values()))
        for name, versions in checkpoint["versions_seen"].items()
        if name in graph.nodes and versions
    }
    newest = max(seen.values(), default=None)
    return sorted(name for name, version in seen.items() if version == newest) or [START]


def _step_of(version: Any) -> int:
    """Return the counter in a channel's version, such as 3 for ``00000003.0.4711``.

    Before 0.6, what follows it differs between the channels of a step.
    """
    return int(str(version).partition(".")[0])


def _edges_of(builder: Any, nodes: Iterable[str]) -> Edges:
    """Return where the edges of these nodes lead."""
    chosen = set(nodes)
    joins = {end for starts, end in builder.waiting_edges if chosen & set(starts)}
    fixed = {end for start, end in builder.edges if start in chosen}
    conditional: set[str] = set()
    commands: set[str] = set()
    is_open = False
    for node in chosen:
        for branch in builder.branches.get(node, {}).values():
            is_open = is_open or branch.ends is None
            conditional |= set((branch.ends or {}).values()) | {getattr(branch, "then", None) or END}
        commands |= set(getattr(builder.nodes.get(node), "ends", None) or ())
    return Edges(frozenset(fixed | joins), frozenset(conditional), is_open, frozenset(commands), bool(joins))


def may_run_from(graph: Any, nodes: Iterable[str]) -> set[str]:
    """Return these nodes and all that edges lead to from them; every node if an edge may lead anywhere."""
    everything = set(nodes_of(graph))
    if not _is_state_graph(graph):
        return everything
    reached, waiting = set[str](), set(nodes)
    while waiting:
        node = waiting.pop()
        reached.add(node)
        edges = _edges_of(graph.builder, [node])
        following = edges.fixed | edges.conditional | edges.commands
        if edges.open or not following:
            # A node without edges may choose what follows, with a command that it does not declare.
            return everything
        waiting |= following - reached - {END}
    return reached


def _always_next(builder: Any, edges: Edges) -> set[str]:
    """Return the nodes that run right after a node with these edges, whatever the state is."""
    waiting = {end for _starts, end in builder.waiting_edges}
    return {
        name for name in edges.fixed - waiting - {END} if not getattr(builder.nodes.get(name), "defer", False)
    }


def _without_effect(builder: Any, pending: Pending) -> str:
    """Return a node whose edges lead nowhere else than to what runs next. Raises Refused if there is none."""
    for node in builder.nodes:
        edges = _edges_of(builder, [node])
        if not (edges.conditional or edges.open or edges.joins) and edges.fixed <= {*pending.nodes, END}:
            return str(node)
    raise _unclear(builder.nodes)


def _unclear(nodes: Iterable[str]) -> Refused:
    """Return the error of an edit that several nodes may have made."""
    return Refused("langgraph.as_node_missing", nodes=", ".join(nodes))


def _saved(running: Running | InnerGraph) -> Any:
    return running.graph.checkpointer.get_tuple(running.config)


def _is_state_graph(graph: Any) -> bool:
    return all(hasattr(getattr(graph, "builder", None), name) for name in ("edges", "branches", "nodes"))


_DONE = object()


def _replacing(running: Running | InnerGraph, name: str, value: Any) -> Any:
    """Return the update that replaces the value of a channel with a reducer, or _DONE if none is needed."""
    from langgraph import types

    if hasattr(types, "Overwrite"):
        return types.Overwrite(value)
    # Older versions can only add. Replace the value in the scratch store's copy of the checkpoint.
    saver = running.graph.checkpointer
    saved = saver.get_tuple(running.config)
    saved.checkpoint["channel_values"][name] = value
    configurable = saved.config["configurable"]
    kind, data = saver.serde.dumps_typed(saved.checkpoint)
    saver.conn.execute(
        "UPDATE checkpoints SET type = ?, checkpoint = ?"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (
            kind,
            data,
            configurable["thread_id"],
            configurable.get("checkpoint_ns", ""),
            configurable["checkpoint_id"],
        ),
    )
    saver.conn.commit()
    return _DONE


def has_reducer(channel: Any) -> bool:
    """Return whether writes are added to a channel's value instead of replacing it."""
    return hasattr(channel, "operator") or type(channel).__name__ == "DeltaChannel"


def node_of(unit: str, graph: Any) -> str:
    """Return the node of a unit: units of a node that runs several times are numbered from the second on."""
    node, _space, number = unit.rpartition(" ")
    return node if unit not in graph.nodes and node in graph.nodes and number.isdigit() else unit


def nodes_of(graph: Any) -> list[str]:
    """Return the nodes that an update can be attributed to."""
    return [name for name in graph.nodes if name != START]


def typed_values(values: Mapping[str, Any], loadable: Loadable) -> dict[str, Any]:
    """Return edited JSON values by channel or input, as ``typed`` does. Raises Refused."""
    return {name: typed(value, loadable) for name, value in values.items()}


def typed(value: Any, loadable: Loadable) -> Any:
    """Return an edited JSON value with its objects restored. Raises Refused for a forbidden class."""
    if isinstance(value, list):
        return [typed(item, loadable) for item in value]
    if not isinstance(value, dict):
        return value
    if OPAQUE in value:
        raise Refused("langgraph.opaque_value")
    if TYPE not in value:
        return {name: typed(item, loadable) for name, item in value.items()}
    if FIELDS not in value:
        raise Refused("langgraph.type_not_editable", type=value[TYPE])
    module, _dot, name = str(value[TYPE]).rpartition(".")
    loadable.check_type(NamedType(module, name, given=value[FIELDS]))
    return _made(module, name, typed(value[FIELDS], loadable), str(value[TYPE]))


def _made(module: str, name: str, fields: Any, title: str) -> Any:
    try:
        made = getattr(importlib.import_module(module), name)
        if title in FROM_TEXT and isinstance(fields, str):
            return made.fromisoformat(fields)
        if dataclasses.is_dataclass(made) or isinstance(fields, dict):
            return made(**fields)
        takes_several = isinstance(fields, list) and (title.startswith("pathlib") or title in FROM_SEVERAL)
        return made(*fields) if takes_several else made(fields)
    except Exception as error:
        raise Refused("langgraph.type_not_editable", type=title) from error


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

    def next_nodes(self) -> list[str]:
        """Return the nodes of the subgraph that run next."""
        return next_nodes(self._outer.graph, self.config)

    def update(self, values: Any, as_node: str | None) -> None:
        """Write a checkpoint of the subgraph, with ``update_state`` of the graph that calls it."""
        self._outer.update(values, as_node, self.config)


def edit_inner_graph(outer: Running, namespace: str, request: Request, loadable: Loadable) -> None:
    """Apply a request's edits to a subgraph. Raises Refused."""
    options = request.get("options") or {}
    values = typed_values(request["state"] or {}, loadable)
    if request.get("answers"):
        raise Refused("langgraph.edit_and_answer")
    inner = InnerGraph(outer, namespace)
    apply(inner, values, set(options.get("replace") or []), options.get("as_node") or None)
    if not inner.next_nodes():
        raise Refused("langgraph.nothing_follows")
    outer.report_steps(outer.next_nodes())


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request's graph. Return the result as text. Raises Refused before anything has run."""
    if not request["entry_point"]:
        raise Refused("langgraph.needs_entry_point")
    if (request.get("options") or {}).get("checkpoints"):
        raise Refused("langgraph.no_checkpoint_choice")
    if calls := tool_calls_of(request, reporter):
        running.decide_about_calls(calls)
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
        with savers.opened_to_publish(request["location"]):
            pass
    result = _run_on_copy(request, scratch, store, reporter)
    if into := (request.get("options") or {}).get("into"):
        try:
            savers.publish(request, store, into, request["job"], reporter)
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
            target = stack.enter_context(closing(scratch_store.create_scratch_store(store)))
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
            edit_inner_graph(one, namespace, request, loadable)
            return one.to_end(None, asks_first=False)
        if request["kind"] == "fork":
            given = _edited(one, request, loadable, is_inner=bool(namespace))
        else:
            given = _input_or_answers(one, request, loadable)
        return one.to_end(given, replays=is_replay)


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
    is_file = not checkpoints.is_database(path)
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
    if checkpoints.is_database(path):
        with checkpoints.connected(path) as connected:
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


def _edited(one: Running, request: Request, loadable: Loadable, *, is_inner: bool) -> Any:
    """Apply a fork's edits, and check that the nodes of the plan run next.

    The steps of a plan of a subgraph, which ``is_inner``, are part of one step of the graph that calls it.
    Return what to pass to ``Running.to_end``. Raises Refused.
    """
    options = request.get("options") or {}
    values = typed_values(request["state"] or {}, loadable)
    as_node, answers = options.get("as_node") or None, request.get("answers") or {}
    given = Command(resume=running.resumption(answers, one.waiting())) if answers else None
    if values or as_node:
        if answers:
            raise Refused("langgraph.edit_and_answer")
        apply(one, values, set(options.get("replace") or []), as_node)
    following = one.next_nodes()
    if not following:
        raise Refused("langgraph.nothing_follows")
    planned = [step["task"] for step in request["steps"] if step["action"] in ("runs", "again")]
    # A unit that finished before counts in the numbers of the others.
    nodes = [node_of(unit, one.graph) for unit in planned]
    if planned and sorted(nodes) != sorted(following) and not (values or as_node or is_inner):
        raise Refused("langgraph.plan_differs", planned=", ".join(planned), found=", ".join(following))
    one.report_steps(following)
    return given


def _input_or_answers(one: Running, request: Request, loadable: Loadable) -> Any:
    """Return what to pass to ``Running.to_end``: a new run's input, answers, or None. Raises Refused."""
    if request["kind"] == "run":
        return running.input_of(one.graph, typed_values(request["inputs"], loadable))
    following = one.next_nodes()
    if not following:
        raise Refused("langgraph.nothing_left")
    one.report_steps(following)
    answers = request.get("answers") or {}
    return Command(resume=running.resumption(answers, one.waiting())) if answers else None
