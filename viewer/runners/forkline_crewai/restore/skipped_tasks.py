"""Tasks without an output before others that have one: the run had passed them over. No engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viewer.jobs.spool import Request

UNCHANGED = {"kept", "runs"}


def passed_over(request: Request, events: list[dict[str, Any]]) -> tuple[set[str], list[int]]:
    """The tasks that are passed over once more, and the positions of those that nobody can say it of.

    A checkpoint does not keep that a task has a condition. One that never started, behind work that is all
    as it was, has a condition that does not hold; behind a change it might.
    """
    started = {str(event.get("task_id")) for event in events if event.get("type") == "task_started"}
    steps = request["steps"]
    over, unclear = set(), []
    for position, step in enumerate(steps, 1):
        is_gap = step["action"] == "runs" and {later["action"] for later in steps[position:]} - {"runs"}
        if not is_gap or step["task"] in started:
            continue
        if {earlier["action"] for earlier in steps[: position - 1]} <= UNCHANGED:
            over.add(step["task"])
        else:
            unclear.append(position)
    return over, unclear
