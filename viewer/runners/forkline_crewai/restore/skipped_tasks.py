"""Skipped tasks: without an output, before others that have one. Does not import the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request


UNFINISHED = {"runs", "may"}
UNCHANGED = {"kept", *UNFINISHED}


def skipped_tasks(request: Request, events: list[dict[str, Any]]) -> tuple[set[str], list[int]]:
    """Return the ids of the tasks to skip again, and the positions of skipped tasks that may run now.

    A checkpoint does not contain conditions. The condition of a task that never started is false if all tasks
    before it are unchanged; after a change it may be true.
    """
    started = {str(event.get("task_id")) for event in events if event.get("type") == "task_started"}
    steps = request["steps"]
    skipped, unclear = set(), []
    for position, step in enumerate(steps, 1):
        later_actions = {later["action"] for later in steps[position:]}
        is_skipped = step["action"] in UNFINISHED and later_actions - UNFINISHED
        if not is_skipped or step["task"] in started:
            continue
        if {earlier["action"] for earlier in steps[: position - 1]} <= UNCHANGED:
            skipped.add(step["task"])
        else:
            unclear.append(position)
    return skipped, unclear
