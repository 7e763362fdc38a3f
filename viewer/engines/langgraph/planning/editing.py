"""What a person may change in a checkpoint of LangGraph before a fork."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.format.super_steps import mapping
from viewer.engines.langgraph.format.typed_values import as_written, with_types
from viewer.engines.langgraph.planning import messages
from viewer.engines.langgraph.planning.questions import open_questions
from viewer.engines.langgraph.project_source.inputs import INPUT
from viewer.engines.langgraph.schema import INTERNAL_NODES
from viewer.engines.planning.editable import Editable

OPAQUE = "__opaque__"


def editable(contents: Contents) -> Editable:
    """The channels of a thread's state, with their types, and the nodes that have run."""
    if contents.opaque or (contents.namespace and not contents.is_waited_for):
        return Editable()
    # A function has values, but no state that could be changed.
    channels = {} if contents.is_functional else contents.channels
    stored = {name: value for name, value in channels.items() if not _is_opaque(value)}
    conversations = {
        name: found for name, value in stored.items() if (found := messages.editable_messages(value))
    }
    state = {name: value if name in conversations else as_written(value) for name, value in stored.items()}
    seen = mapping(contents.checkpoint.get("versions_seen"))
    return Editable(
        state=state,
        opaque=tuple(name for name in channels if name not in state),
        as_nodes=() if contents.is_functional else tuple(node for node in seen if node not in INTERNAL_NODES),
        conversations=conversations,
        questions=tuple(open_questions(contents)),
    )


def typed_state(contents: Contents, state: Mapping[str, Any]) -> dict[str, Any]:
    """Edited values of channels with the types of the values that they replace. Raises EditRefused."""
    stored = contents.channels
    return {name: with_types(value, stored.get(name), name) for name, value in state.items()}


def _is_opaque(value: Any) -> bool:
    """Whether a part of the value is not decoded, so that the value cannot be written again."""
    level = [value]
    while level:
        if any(isinstance(item, dict) and OPAQUE in item for item in level):
            return True
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return False


def kickoff_inputs(contents: Contents, kind: str) -> Mapping[str, Any]:
    """The input that a run was started with, from its first checkpoint.

    An input that is not an object is the value of the field ``INPUT``.
    """
    values = mapping(contents.checkpoint.get("channel_values"))
    given = values.get("__start__")
    return mapping(given) if given is None or isinstance(given, dict) else {INPUT: given}
