"""Builds one document of a checkpoint, its metadata, writes and changes. It is decoded, but not redacted."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.identifiers import valid_text
from viewer.engines.langgraph.super_steps import (
    START,
    Place,
    attempts_in,
    mapping,
    names_by_id,
    node_in_path,
    sent_nodes,
)
from viewer.engines.langgraph.tables.row_shapes import CheckpointKey, WriteRow
from viewer.engines.langgraph.threads import StoredCheckpoint, Tables
from viewer.engines.langgraph.threads.rows import metadata_of, parents_in
from viewer.stores.errors import Unreadable

# The most ancestors that are read for the changes of a channel, and their bytes. By default, the engine
# writes a snapshot at every hundredth change.
MAX_ANCESTORS = 500
MAX_ANCESTOR_BYTES = 32 * 1024 * 1024
# The key of the metadata that names the channels of which a checkpoint may store only changes.
_COUNTERS = "counters_since_delta_snapshot"
# Returns decoded checkpoints, one after the other.
Others = Callable[[], Iterable[Mapping[str, Any]]]


def document_of(tables: Tables, key: CheckpointKey, others: Others = tuple) -> dict[str, Any]:
    """The document of a checkpoint. Raises Unreadable, and what the tables raise.

    ``others`` are checkpoints after it, or of other threads, that may show the names of its tasks.
    """
    decoder = Decoder(tables.limits)
    stored = tables.checkpoint(key, tables.limits.max_bytes, decoder)
    metadata = decoder.value_or_placeholder("json", stored.metadata, len(stored.metadata or b""))
    document = {
        "thread_id": valid_text(key.thread),
        "checkpoint_ns": valid_text(key.namespace),
        "checkpoint_id": valid_text(key.checkpoint_id),
        "parent_checkpoint_id": valid_text(stored.parent_id) if stored.parent_id else None,
        "checkpoint": stored.values,
        "metadata": metadata,
        "writes": _writes(tables, key, tables.limits.max_bytes - stored.size, decoder),
    }
    if wanted := _changed_channels(stored.values, metadata):
        document["changes"] = _changes(tables, key, stored, wanted, decoder)
    if names := _task_names(key, document, others):
        document["task_names"] = names
    if _is_continued(tables, key, document):
        document["is_continued"] = True
    return document


def _is_continued(tables: Tables, key: CheckpointKey, document: Mapping[str, Any]) -> bool:
    """Whether tasks wait at a checkpoint, as far as their rows show, but the graph has gone on after it.

    With ``durability="exit"``, an answered task stores nothing but changes of channels, if these.
    """
    writes = document["writes"]
    attempts = attempts_in((write["task_id"], write["task_path"], write["index"]) for write in writes)
    if not any(one.status == "waiting" for one in attempts):
        return False
    # A subgraph goes on with the graph that called it.
    outer = parents_in(mapping(document["metadata"])).get("") if key.namespace else key.checkpoint_id
    children = [one for one, parent in tables.rows.parents(key.thread) if outer and parent == outer]
    keys = [("", own_id) for own_id in children]
    return any(
        metadata_of(child.metadata).source == "loop" for child in tables.rows.checkpoints(key.thread, keys)
    )


def _task_names(key: CheckpointKey, document: Mapping[str, Any], others: Others) -> dict[str, str]:
    """The names of the tasks whose paths do not name them, by id.

    The names are of this checkpoint, or else of ``others``.
    """
    attempts = attempts_in(
        (write["task_id"], write["task_path"], write["index"]) for write in document["writes"]
    )
    checkpoint, metadata = mapping(document["checkpoint"]), mapping(document["metadata"])
    place = Place.after(key.namespace, key.checkpoint_id, metadata.get("step"))
    sent = sent_nodes(checkpoint)
    found = names_by_id(attempts, place, checkpoint)
    unnamed = [one for one in attempts if not (one.task_id in found or node_in_path(one.path, sent))]
    # Only functions, whose input is at the checkpoint where they run, leave no other trace of their names.
    is_input = START in mapping(checkpoint.get("channel_values"))
    names: list[str] = []
    for other in others() if any(is_input or one.is_called for one in unnamed) else ():
        names += mapping(other.get("versions_seen"))
        found = names_by_id(attempts, place, checkpoint, dict.fromkeys(names))
        if not {one.task_id for one in unnamed} - found.keys():
            break
    return found


def written_value(decoder: Decoder, write: WriteRow, value: bytes | None) -> Any:
    """The decoded value of a write, or a placeholder if it cannot be decoded."""
    return decoder.value_or_placeholder(write.kind or None, value, write.size)


def _writes(tables: Tables, key: CheckpointKey, budget: int, decoder: Decoder) -> list[dict[str, Any]]:
    """The writes of a checkpoint's tasks, by task and index. Values beyond the budget are opaque."""
    found: list[dict[str, Any]] = []
    for write in tables.rows.writes(key, budget):
        budget -= write.size
        found.append(
            {
                "task_id": valid_text(write.task_id),
                "task_path": valid_text(write.task_path),
                "index": write.index,
                "channel": valid_text(write.channel),
                "type": valid_text(write.kind),
                "value": written_value(decoder, write, write.value if budget >= 0 else None),
            }
        )
    return found


def _changed_channels(values: Any, metadata: Any) -> set[str]:
    """The channels that have a version in a checkpoint but no value."""
    checkpoint = mapping(values)
    stored, versions = mapping(checkpoint.get("channel_values")), mapping(checkpoint.get("channel_versions"))
    return {
        name for name in mapping(mapping(metadata).get(_COUNTERS)) if name in versions and name not in stored
    }


def _changes(
    tables: Tables, key: CheckpointKey, stored: StoredCheckpoint, wanted: set[str], decoder: Decoder
) -> dict[str, Any]:
    """For each channel, its value at the nearest ancestor that has one, and the writes since, oldest first.

    The writes of a checkpoint are in the order in which the engine applies them. ``is_whole`` is false if an
    ancestor is missing, unreadable or beyond the limits.
    """
    found: dict[str, dict[str, Any]] = {name: {"writes": [], "is_whole": False} for name in wanted}
    left, budget, parent = set(wanted), MAX_ANCESTOR_BYTES, stored.parent_id
    for _ancestor in range(MAX_ANCESTORS):
        if not left or not parent or budget <= 0:
            break
        at = CheckpointKey(key.thread, key.namespace, parent)
        try:
            ancestor = tables.checkpoint(at, budget, decoder)
        except Unreadable:
            return found
        budget -= ancestor.size
        values = mapping(mapping(ancestor.values).get("channel_values"))
        writes = list(tables.rows.writes(at, max(budget, 0)))
        budget -= sum(write.size for write in writes)
        for name in left:
            found[name]["writes"][:0] = _written(decoder, writes, name)
            if name in values:
                found[name].update(base=values[name], is_whole=True)
        left -= values.keys()
        parent = ancestor.parent_id
    for name in left if not parent else ():
        # No ancestor is left, so the channel began empty.
        found[name]["is_whole"] = bool(found[name]["writes"])
    return found


def _written(decoder: Decoder, writes: Iterable[WriteRow], channel: str) -> list[Any]:
    own = [write for write in writes if write.channel == channel and write.index >= 0]
    own.sort(key=lambda write: (write.task_path, write.task_id, write.index))
    return [written_value(decoder, write, write.value) for write in own]
