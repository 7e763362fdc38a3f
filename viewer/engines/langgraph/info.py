"""The contents of a LangGraph checkpoint for the terminal."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.tabs import shown


def info(contents: Contents, first: Contents | None = None) -> dict[str, Any]:
    """The contents as plain values."""
    return {
        "thread_id": contents.thread_id,
        "checkpoint_ns": contents.namespace,
        "checkpoint_id": contents.id,
        "parent_checkpoint_id": contents.parent_id or None,
        "source": contents.source,
        "step": contents.step,
        "unreadable": sorted(contents.unreadable),
        "state": contents.channels,
        "next": contents.next_nodes,
        "tasks": [
            {
                "id": task.id,
                "node": task.node,
                "status": task.status,
                "writes": [{"channel": write.channel, "value": write.value} for write in task.writes],
                "interrupts": [{"id": one.id, "value": one.value} for one in task.interrupts],
                "error": task.error or None,
            }
            for task in contents.tasks
        ],
    }


def info_lines(contents: Contents, first: Contents | None = None) -> Iterator[str]:
    """The contents as lines."""
    for name, placeholder in contents.unreadable.items():
        yield f"{name} not decoded: {shown(placeholder)}"
    step = "-" if contents.step is None else contents.step
    yield f"source: {contents.source or 'unknown'}, step: {step}"
    for name, value in contents.channels.items():
        yield f"{name}: {' '.join(shown(value).split())[:200]}"
    if contents.next_nodes:
        yield f"next: {', '.join(contents.next_nodes)}"
    for task in contents.tasks:
        if task.status != "done":
            asked = "; ".join(" ".join(shown(one.value).split()) for one in task.interrupts)
            yield f"{task.node or task.id} {task.status}: {task.error or asked}"[:300]
