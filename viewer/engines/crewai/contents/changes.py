"""Compares the tasks of a checkpoint with those at the origin of its branch."""

from enum import StrEnum

from viewer.engines.crewai.contents import Contents


class TaskChange(StrEnum):
    """What has happened to a task since the origin of its branch."""

    KEPT = "kept"
    EDITED = "edited"
    RAN_AGAIN = "ran_again"
    RAN = "ran"
    TO_RUN = "to_run"


def changes_since(origin: Contents, contents: Contents) -> dict[str, TaskChange]:
    """Return the change of each task of ``own`` since ``origin``, by task id."""
    known = {event.id for event in origin.events}
    completed = {
        event.task_id for event in contents.events if event.kind == "task_completed" and event.id not in known
    }
    before = {task.id: task for task in origin.tasks}
    changes: dict[str, TaskChange] = {}
    for task in contents.tasks:
        former = before.get(task.id)
        was_done = former is not None and former.done
        if not task.done:
            changes[task.id] = TaskChange.TO_RUN
        elif task.id in completed:
            changes[task.id] = TaskChange.RAN_AGAIN if was_done else TaskChange.RAN
        elif former is not None and former.output == task.output:
            changes[task.id] = TaskChange.KEPT
        else:
            changes[task.id] = TaskChange.EDITED
    return changes
