"""Compares the tasks of a checkpoint with those at the origin of its branch."""

from enum import StrEnum

from viewer.engines.crewai.contents import Contents


class Change(StrEnum):
    """What has happened to a task since the origin of its branch."""

    KEPT = "kept"
    EDITED = "edited"
    RAN_AGAIN = "ran_again"
    RAN = "ran"
    TO_RUN = "to_run"


def changes_since(origin: Contents, own: Contents) -> dict[str, Change]:
    """Return the change of each task of ``own`` since ``origin``, by task id."""
    known = {event.id for event in origin.events}
    completed = {
        event.task_id for event in own.events if event.kind == "task_completed" and event.id not in known
    }
    before = {task.id: task for task in origin.tasks}
    changes: dict[str, Change] = {}
    for task in own.tasks:
        former = before.get(task.id)
        was_done = former is not None and former.done
        if not task.done:
            changes[task.id] = Change.TO_RUN
        elif task.id in completed:
            changes[task.id] = Change.RAN_AGAIN if was_done else Change.RAN
        elif former is not None and former.output == task.output:
            changes[task.id] = Change.KEPT
        else:
            changes[task.id] = Change.EDITED
    return changes
