"""The contents of a LangGraph checkpoint for the terminal."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.langgraph.contents import Contents, Interrupt, Task
from viewer.engines.langgraph.format.super_steps import RETURN
from viewer.engines.langgraph.format.typed_values import as_written
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
        "state": as_written(contents.channels),
        "next": contents.next_nodes,
        "tasks": [
            {
                "id": task.id,
                "node": task.node,
                "status": task.status,
                "writes": [
                    {"channel": write.channel, "value": as_written(write.value)} for write in task.writes
                ],
                "interrupts": [_interrupt(one, task) for one in task.interrupts],
                "answers": as_written(list(task.answers)),
                "error": task.error or None,
            }
            for task in contents.tasks
        ],
        "given": [{"channel": one.channel, "value": as_written(one.value)} for one in contents.given],
    }


def _interrupt(one: Interrupt, task: Task) -> dict[str, Any]:
    """An interrupt, whether a person has yet to answer it, and the schema of its answer, if it has one."""
    found = {"id": one.id, "value": as_written(one.value), "is_pending": task.status == "waiting"}
    return found if one.schema is None else {**found, "response_schema": one.schema}


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
        name = task.node or task.id
        asked = "; ".join(_line(one.value) for one in task.interrupts)
        if task.status != "done":
            yield f"{name} {task.status}: {task.error or asked}"[:300]
        elif asked:
            yield f"{name} asked: {asked}"[:300]
        elif returned := [write for write in task.writes if write.channel == RETURN]:
            yield f"{name} returned: {_line(returned[-1].value)}"[:300]
        for answer in task.answers:
            yield f"{name} was answered: {_line(answer)}"[:300]
    for one in contents.given:
        yield f"given with the command: {one.name}: {_line(one.value)}"[:300]


def _line(value: Any) -> str:
    return " ".join(shown(value).split())
