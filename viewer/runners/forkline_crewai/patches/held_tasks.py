"""Skip tasks wherever they are in a crew, and keep their outputs.

Patches: crewai.crew.prepare_task_execution
Versions: 1.14.2 and newer
Why: Once one task has no output, the engine runs that task and all tasks after it.
Test: tests/runners/resuming/test_crews.py::test_the_plan_lists_exactly_the_tasks_the_model_is_called_for
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import crewai.crew


def apply(held: Collection[str], skipped: Collection[str] = ()) -> None:
    """Skip tasks by their ids: ``held`` ones if they have an output, ``skipped`` ones always."""
    prepare_task = crewai.crew.prepare_task_execution

    def prepare(crew: Any, task: Any, index: int, start: int | None, *rest: Any) -> Any:
        if str(task.id) in skipped or (str(task.id) in held and task.output is not None):
            start = index + 1
        return prepare_task(crew, task, index, start, *rest)

    crewai.crew.prepare_task_execution = prepare
