"""Applies edited values of channels, with their objects restored."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from forkline_langgraph.restore.named_types import NamedType
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_langgraph.restore.effects import Loadable
    from forkline_langgraph.run.inner_graph import InnerGraph
    from forkline_langgraph.run.running import Running

# The keys with which viewer/engines/langgraph/format/decoding.py represents an object.
TYPE, FIELDS, OPAQUE = "__type__", "fields", "__opaque__"
# Classes that are made of a text with ``fromisoformat``, and of a list with several arguments.
FROM_TEXT = {"datetime.datetime", "datetime.date", "datetime.time"}
FROM_SEVERAL = {"datetime.date", "datetime.timedelta", "datetime.timezone", "re.compile"}


def apply(
    running: Running | InnerGraph, values: Mapping[str, Any], replaced: set[str], as_node: str | None
) -> None:
    """Write a checkpoint with these values. Channels in ``replaced`` are set without their reducers.

    Raises Refused if the graph does not accept them.
    """
    unknown = sorted(set(values) - set(running.graph.channels))
    if unknown:
        raise Refused("langgraph.no_such_channel", channels=", ".join(unknown))
    if as_node is not None and as_node not in running.graph.nodes:
        raise Refused("langgraph.no_such_node", node=as_node)
    updates = dict(values)
    for name in replaced & set(values):
        if has_reducer(running.graph.channels[name]):
            updates[name] = _replacing(running, name, updates[name])
    try:
        running.update({name: value for name, value in updates.items() if value is not _DONE}, as_node)
    except Exception as error:
        if "mbiguous" in str(error):
            raise Refused("langgraph.as_node_missing", nodes=", ".join(nodes_of(running.graph))) from error
        raise Refused("langgraph.edit_failed", kind=type(error).__name__, error=error) from error


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


def nodes_of(graph: Any) -> list[str]:
    """Return the nodes that an update can be attributed to."""
    return [name for name in graph.nodes if name != "__start__"]


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
