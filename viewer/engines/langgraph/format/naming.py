"""Finds the node of each task. New versions record it in the task's path; old versions only give hints."""

from collections.abc import Mapping, Sequence
from typing import Any

from viewer.engines.langgraph.format import identifiers, super_steps
from viewer.engines.langgraph.format.super_steps import Attempt, fields_of, mapping, sequence


def named_attempts(
    attempts: Sequence[Attempt], checkpoint: Mapping[str, Any], hints: Mapping[str, str] | None = None
) -> list[tuple[Attempt, str]]:
    """Each task with its node; the node is empty if it is not known. ``hints`` are nodes by task id."""
    sent = super_steps.sent_nodes(checkpoint)
    hints = hints or {}
    named = [
        (attempt, super_steps.node_in_path(attempt.path, sent) or hints.get(attempt.task_id, ""))
        for attempt in attempts
    ]
    open_nodes = super_steps.next_nodes(checkpoint)
    for _attempt, node in named:
        if node in open_nodes:
            open_nodes.remove(node)
    unnamed = [attempt for attempt, node in named if not node]
    # If one task and one node remain, they belong together.
    if len(unnamed) == 1 and len(open_nodes) == 1:
        named = [(attempt, node or open_nodes[0]) for attempt, node in named]
    return named


def hints(grouped: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Nodes by task id, for the tasks whose writes name a node."""
    found: dict[str, str] = {}
    for task_id, writes in grouped.items():
        for write in writes:
            channel, value = str(write.get("channel")), write.get("value")
            if isinstance(value, str) and (channel.startswith("join:") or value == channel):
                found[task_id] = value
            for interrupt in interrupt_fields(value) if write["index"] == super_steps.INTERRUPT else ():
                namespaces = sequence(interrupt.get("ns"))
                if namespaces and isinstance(namespaces[-1], str):
                    found[task_id] = identifiers.node_of(namespaces[-1])
    return found


def interrupt_fields(value: Any) -> list[Mapping[str, Any]]:
    """The fields of each interrupt in the value of a write."""
    several = value if isinstance(value, list) else [value]
    return [fields for one in several if (fields := mapping(fields_of(one, "Interrupt")))]
