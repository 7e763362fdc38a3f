"""Infers which outputs each task reads from the context that the task received.

A checkpoint does not contain these links. Does not import the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The engine's separator between the outputs that it passes to a task.
DIVIDER = "\n\n----------\n\n"


def links(
    tasks: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> dict[str, list[str] | None]:
    """Return for each started task the ids of the tasks it reads, or None if it reads all tasks before it.

    A task that never started, or whose context is ambiguous, is left out.

        context of task 3   output of 1, output of 2   -> None
                            output of 1                -> ["1"]
                            nothing                    -> []
    """
    found: dict[str, list[str] | None] = {}
    order = [str(task.get("id")) for task in tasks]
    outputs: dict[str, str] = {}
    for event in events:
        task = str(event.get("task_id") or "")
        if event.get("type") == "task_completed" and isinstance(event.get("output"), dict):
            outputs[task] = str(event["output"].get("raw") or "")
        if event.get("type") == "task_started" and task in order:
            before = [(other, outputs[other]) for other in order[: order.index(task)] if other in outputs]
            read = _tasks_in(str(event.get("context") or ""), before)
            if not isinstance(read, bool):
                found[task] = read
    return found


def _tasks_in(context: str, before: list[tuple[str, str]]) -> list[str] | bool | None:
    """Return the ids of the tasks whose outputs form a context; None for all of them, False if ambiguous.

    ``before`` has the ids and outputs of the earlier tasks.
    """
    if context == DIVIDER.join(text for _, text in before):
        return None
    if not context:
        return []
    read: list[str] = []
    rest = context
    for task, text in before:
        if text and (rest == text or rest.startswith(text + DIVIDER)):
            read.append(task)
            rest = rest[len(text) + len(DIVIDER) :]
    return read if read and not rest else False
