"""The schema of a graph, from the project's code or else from a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

from viewer.engines.entry_points import JSON_TYPES, InputName
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.format.super_steps import BUMPS, mapping, sequence
from viewer.engines.planning.schema import Schema, StateEntry

# Nodes of the engine itself.
INTERNAL_NODES = ("__start__", "__input__", "__interrupt__", "__copy__", BUMPS)


def schema(contents: Contents | None, report: Mapping[str, Any]) -> Schema:
    """The schema in a preflight report; without a report, the nodes that the checkpoint shows."""
    if "nodes" not in report:
        return Schema(units=_seen(contents) if contents else ())
    return Schema(
        entries={str(one.get("name")): _entry(one) for one in _objects(report.get("channels"))},
        units=tuple(str(node) for node in sequence(report["nodes"])),
        configurable=_names(report.get("configurable")),
        context=_names(report.get("context")),
        is_inferred=False,
    )


def _seen(contents: Contents) -> tuple[str, ...]:
    """The nodes that have run before the checkpoint or run after it."""
    seen = mapping(contents.checkpoint.get("versions_seen"))
    following = contents.triggered_nodes
    return tuple(dict.fromkeys(node for node in (*seen, *following) if node not in INTERNAL_NODES))


def _entry(channel: Mapping[str, Any]) -> StateEntry:
    return StateEntry(JSON_TYPES.get(str(channel.get("type"))), str(channel.get("reducer") or ""))


def _names(found: Any) -> tuple[InputName, ...]:
    return tuple(
        InputName(
            str(one.get("name")),
            JSON_TYPES.get(str(one.get("type"))),
            one.get("default"),
            has_default="default" in one,
        )
        for one in _objects(found)
    )


def _objects(found: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in sequence(found) if isinstance(one, dict)]
