"""What a preflight check reports of a graph: nodes and edges, state and settings, and what runs next."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import json
import sqlite3
import types
import typing
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from forkline_langgraph import checkpoints, running, runs, savers, scratch_store
from forkline_langgraph.entry_points import RESERVED
from forkline_langgraph.running import Running, shown, units_of
from forkline_runner.findings import MAX_NAMES, is_in_project
from forkline_runner.reporting import Refused, described, shortened

if TYPE_CHECKING:
    from forkline_langgraph.checkpoints import CheckpointKey, Source
    from forkline_langgraph.effects import Loadable
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# As many as Forkline draws (viewer/records/lineage/graphs.py).
MAX_NODES, MAX_EDGES = 200, 1000
MAX_NAME, MAX_LABEL = 100, 60

# An edge: the nodes, whether it is conditional, and the name of the condition's result.
Edge = tuple[str, str, bool, str]


def compiled_graph(graph: Any) -> dict[str, Any]:
    """Return the nodes and edges as plain values; empty if the graph cannot be drawn or is too large.

    A node inside another graph is named after that graph's node, as in ``research/search``. The start and
    end nodes of inner graphs are left out, and the edges through them are joined.
    """
    try:
        drawn = _drawn(graph)
        nodes = [_name(str(key)) for key in drawn.nodes]
        edges = [
            (_name(str(edge.source)), _name(str(edge.target)), bool(edge.conditional), str(edge.data or ""))
            for edge in drawn.edges
        ]
    except Exception:
        # Drawing calls code of the project's runnables, which may raise anything.
        return {}
    for node in [node for node in nodes if _is_inner_end(node)]:
        edges = list(_without(node, edges))
    nodes = [node for node in nodes if not _is_inner_end(node)]
    if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
        return {}
    return {
        "nodes": [node[:MAX_NAME] for node in nodes],
        "edges": [
            [first[:MAX_NAME], second[:MAX_NAME], is_conditional, label[:MAX_LABEL]]
            for first, second, is_conditional, label in dict.fromkeys(edges)
        ],
    }


def _drawn(graph: Any) -> Any:
    """Return the engine's own drawing, with the inner graphs if this version can draw them."""
    try:
        return graph.get_graph(xray=True)
    except Exception:
        # Old versions fail if no node of an inner graph leads to its end.
        return graph.get_graph()


def _name(key: str) -> str:
    """Return a node's name as in a run's events. The engine separates levels with a colon."""
    return key.replace(":", "/")


def _is_inner_end(node: str) -> bool:
    graph, _slash, name = node.rpartition("/")
    return bool(graph) and name in (runs.START, runs.END)


def _without(node: str, edges: Sequence[Edge]) -> Iterator[Edge]:
    """Yield the edges, with those to and from this node joined."""
    arriving = [edge for edge in edges if edge[1] == node]
    leaving = [edge for edge in edges if edge[0] == node]
    yield from (edge for edge in edges if node not in edge[:2])
    for first, _node, is_conditional, label in arriving:
        for _node, second, leaves_conditionally, further in leaving:
            yield first, second, is_conditional or leaves_conditionally, label or further


MAX_CHANNELS = 200
MAX_DEFAULT = 500
# The types of a JSON schema. ``bool`` comes before ``int``, whose subclass it is.
TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    set: "array",
    dict: "object",
}

Found = dict[str, Any]


def description_of(graph: Any, edited: Any) -> Found:
    """Return what a form needs: the nodes and channels of the graph that a person edits, and the settings."""
    return {
        "nodes": runs.nodes_of(edited)[:MAX_NAMES],
        "channels": channels_of(edited),
        **declared_settings(graph),
    }


def channels_of(graph: Any) -> list[Found]:
    """Return the name, type and reducer of each channel of the graph's state; no reducer is empty."""
    found = [
        {"name": name, "type": type_name(getattr(channel, "typ", None)), "reducer": reducer_of(channel)}
        for name, channel in graph.channels.items()
        if not name.startswith(checkpoints.CONTROL) and not _is_trigger(graph, name)
    ]
    return found[:MAX_CHANNELS]


def _is_trigger(graph: Any, name: str) -> bool:
    """Return whether this is a channel with which early versions trigger the nodes after a node."""
    return name in graph.nodes and type(graph.channels[name]).__name__ == "EphemeralValue"


def reducer_of(channel: Any) -> str:
    """Return the name of the function that adds a write to a channel; empty if a write replaces its value."""
    if not runs.has_reducer(channel):
        return ""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    name = getattr(function, "__name__", "") or type(function or channel).__name__
    is_operator = getattr(function, "__module__", "") == "_operator"
    return f"operator.{name}" if is_operator else str(name).lstrip("_")


def type_name(found: Any) -> str:
    """Return the JSON type of a Python type; empty if it has none, or several."""
    origin = typing.get_origin(found)
    if origin is typing.Annotated:
        return type_name(typing.get_args(found)[0])
    if origin in (typing.Union, types.UnionType):
        named = {type_name(one) for one in typing.get_args(found) if one is not type(None)}
        return named.pop() if len(named) == 1 else ""
    if origin is typing.Literal:
        named = {type_name(type(one)) for one in typing.get_args(found)}
        return named.pop() if len(named) == 1 else ""
    real = origin or found
    if not isinstance(real, type):
        return ""
    return next((name for known, name in TYPES.items() if issubclass(real, known)), "")


def declared_settings(graph: Any) -> dict[str, list[Found]]:
    """Return the fields of ``configurable`` and of ``context`` that the graph declares."""
    context, configurable = getattr(graph, "context_schema", None), getattr(graph, "config_type", None)
    is_old = not hasattr(graph, "context_schema")
    return {
        "configurable": list(_fields_of(configurable)) if is_old else [],
        "context": [] if is_old else list(_fields_of(context)),
    }


def _fields_of(schema: Any) -> Iterator[Found]:
    """Yield the fields of a dataclass, a pydantic model or a TypedDict, with defaults that JSON can hold."""
    if not inspect.isclass(schema):
        return
    try:
        hints = typing.get_type_hints(schema)
    except Exception:
        hints = dict(getattr(schema, "__annotations__", {}))
    for name, hint in list(hints.items())[:MAX_CHANNELS]:
        if name in RESERVED or name.startswith("_"):
            continue
        found = {"name": name, "type": type_name(hint)}
        has_default, default = _default_of(schema, name)
        yield {**found, "default": default} if has_default else found


def _default_of(schema: Any, name: str) -> tuple[bool, Any]:
    """Return whether a field has a short default that JSON can hold, and the default."""
    value: Any = dataclasses.MISSING
    if dataclasses.is_dataclass(schema):
        value = next((one.default for one in dataclasses.fields(schema) if one.name == name), value)
    elif hasattr(schema, "model_fields"):
        found = schema.model_fields.get(name)
        value = found.default if found is not None and not found.is_required() else value
    try:
        is_short = len(json.dumps(value)) <= MAX_DEFAULT
    except (TypeError, ValueError):
        return False, None
    return is_short, value if is_short else None


# Maximum tools of a graph, and values of a node that are searched for them.
MAX_TOOLS, MAX_VALUES = 200, 2000


def tools_by_node(graph: Any, following: Sequence[str]) -> list[Found]:
    """Return the names of the tools that each node holds, and whether it may run after ``following``.

    A tool counts for the first node that may run and holds it.
    """
    may_run = runs.may_run_from(graph, following)
    node_of_tool: dict[str, str] = {}
    for node in sorted(runs.nodes_of(graph), key=lambda node: node not in may_run):
        for name in _tools_in(graph.nodes[node]):
            node_of_tool.setdefault(name, node)
    found: dict[str, Found] = {}
    for name, node in list(node_of_tool.items())[:MAX_TOOLS]:
        new = {"node": node[:MAX_NAME], "tools": [], "may_run": node in may_run}
        found.setdefault(node, new)["tools"].append(name)
    return list(found.values())


def _tools_in(node: Any) -> list[str]:
    """Return the names of the tools in a node: in its own runnables, subgraphs and functions."""
    names: dict[str, None] = {}
    waiting, seen = deque([node]), dict[int, Any]()
    while waiting and len(seen) < MAX_VALUES:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        # Reading may call code of the project's objects, which may raise anything.
        with suppress(Exception):
            if not isinstance(value, BaseTool):
                waiting.extend(itertools.islice(_parts_of(value), MAX_VALUES))
            elif len(value.name) <= MAX_NAME:
                names[value.name] = None
    return list(names)


def _parts_of(value: Any) -> Iterable[Any]:
    """Return what a runnable, a function or a collection consists of; empty for any other value."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.ismethod(value):
        return [value.__self__, value.__func__]
    if inspect.isfunction(value):
        used = _used_by(value)
        return [one for one in used if not inspect.isfunction(one) or is_in_project(one.__module__)]
    attributes = getattr(value, "__dict__", {})
    if "bound" in attributes:
        return [value.bound]
    is_runnable = not isinstance(value, type) and (isinstance(value, Runnable) or callable(value))
    return attributes.values() if is_runnable else ()


def _used_by(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values of outer names that a function uses, and those of the modules that it uses."""
    names, waiting = set[str](), [function.__code__]
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            # The name of an empty cell has no value yet.
            yield cell.cell_contents
    for value in [function.__globals__[name] for name in sorted(names & function.__globals__.keys())]:
        if isinstance(value, types.ModuleType):
            yield from [vars(value)[name] for name in sorted(names & vars(value).keys())]
        yield value


MAX_EDITED_NODES = 60
MAX_ERROR = 500


def next_nodes(
    graph: Any, source: Source, scratch: Path, address: CheckpointKey, loadable: Loadable
) -> list[str]:
    """Return the nodes that would run next from a copy of the checkpoint. Raises Refused."""
    with _on_copy(graph, source, scratch, address, loadable) as copied:
        try:
            following = running.next_nodes(copied, _config_of(address))
        except Refused:
            raise
        except Exception as error:
            raise Refused("langgraph.state_unreadable", kind=type(error).__name__, error=error) from error
    return following[:MAX_NAMES]


def next_by_node(
    graph: Any,
    request: Request,
    source: Source,
    scratch: Path,
    address: CheckpointKey,
    loadable: Loadable,
    reporter: Reporter,
) -> list[Found]:
    """Return what runs next after the request's edits: without a node, then attributed to each node.

    An outcome has ``node``, ``next`` (units), and ``after`` (edited channels) or an ``error``. Each is read
    from a separate copy in memory. No node runs; conditional edges do, with the edited state.
    """
    values = runs.typed_values(request["state"] or {}, loadable)
    replaced = set((request.get("options") or {}).get("replace") or [])
    asks = bool(checkpoints.waiting_tasks(source.rows.writes(address)))
    found = []
    for node in ["", *runs.nodes_of(graph)[:MAX_EDITED_NODES]]:
        is_edited = bool(values or node)
        with _on_copy(
            graph,
            source,
            scratch,
            address,
            loadable,
            with_writes=asks and not is_edited,
            edited="" if is_edited else None,
        ) as copied:
            one = Running(copied, _config_of(address), reporter)
            found.append({"node": node, **_outcome(one, values, replaced, node)})
    return found


@contextmanager
def _on_copy(
    graph: Any,
    source: Source,
    scratch: Path,
    address: CheckpointKey,
    loadable: Loadable,
    *,
    with_writes: bool = False,
    edited: str | None = None,
) -> Iterator[Any]:
    """Yield the graph on a copy of the checkpoint in memory, as ``scratch_store.fill`` makes it."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as target:
        saver = savers.saver_on(target, scratch / scratch_store.STORE, loadable, None, "")
        with_ancestors = scratch_store.stores_changes_only(graph)
        scratch_store.fill(
            source, target, address, with_ancestors=with_ancestors, with_writes=with_writes, edited=edited
        )
        yield graph.copy(update={"checkpointer": saver})


def _config_of(address: CheckpointKey) -> dict[str, Any]:
    return {"configurable": {"thread_id": address.thread}}


def _outcome(one: Running, values: dict[str, Any], replaced: set[str], node: str) -> Found:
    try:
        if values or node:
            runs.apply(one, dict(values), replaced, node or None)
        following, state = one.next_nodes(), one.state().values
    except Refused as refused:
        return {"next": [], "error": shortened(str(refused), MAX_ERROR)}
    except Exception as error:
        return {"next": [], "error": shortened(described(error), MAX_ERROR)}
    after = {name: shown(state.get(name)) for name in values} if isinstance(state, dict) else {}
    return {"next": units_of(following), "after": after, "error": ""}
