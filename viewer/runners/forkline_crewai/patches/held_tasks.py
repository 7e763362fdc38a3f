"""Skip tasks wherever they are in a crew, and keep their outputs.

Patches: crewai.crew.prepare_task_execution, crewai.crew.check_conditional_skip,
    crewai.task.Task.execute_sync, crewai.task.Task.execute_async
Versions: 1.14.2 and newer
Why: Once one task has no output, the engine runs that task and all tasks after it. And it hands on the output
    of a skipped task before those of earlier tasks that still run, so that later tasks read another order.
Test: tests/runners/resuming/test_crews.py::test_the_plan_lists_exactly_the_tasks_the_model_is_called_for
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any

import crewai.crew
from crewai.task import Task


def apply(held: Collection[str], skipped: Collection[str] = ()) -> None:
    """Skip tasks by their ids: ``held`` ones if they have an output, ``skipped`` ones always.

    While an async task runs, a held task returns its output instead, so that the engine keeps the order.
    """
    prepare_task = crewai.crew.prepare_task_execution
    check_condition = crewai.crew.check_conditional_skip
    # The ids of held tasks that return their outputs, and whether the engine still waits for async tasks.
    returned: set[str] = set()
    waits = [False]

    def is_held(task: Any) -> bool:
        return str(task.id) in held and task.output is not None

    def prepare(crew: Any, task: Any, index: int, start: int | None, *rest: Any) -> Any:
        if str(task.id) in skipped:
            return prepare_task(crew, task, index, index + 1, *rest)
        if is_held(task):
            start = index + 1
        will_run = start is None or index >= start
        if will_run:
            waits[0] = bool(task.async_execution)
            return prepare_task(crew, task, index, start, *rest)
        if task.output is None or not waits[0]:
            return prepare_task(crew, task, index, start, *rest)
        outputs, *others = rest
        data, _outputs, last = prepare_task(crew, task, index, start, [], *others)
        data.should_skip = False
        returned.add(str(task.id))
        waits[0] = bool(task.async_execution)
        return data, outputs, last

    def condition(crew: Any, task: Any, *rest: Any) -> Any:
        return None if str(task.id) in returned else check_condition(crew, task, *rest)

    crewai.crew.prepare_task_execution = prepare
    crewai.crew.check_conditional_skip = condition
    _return_outputs(returned)


def _return_outputs(returned: Collection[str]) -> None:
    """Make tasks with these ids return the outputs that they have."""
    execute_sync, execute_async = Task.execute_sync, Task.execute_async

    def sync(self: Any, *rest: Any, **named: Any) -> Any:
        return self.output if str(self.id) in returned else execute_sync(self, *rest, **named)

    def asynchronous(self: Any, *rest: Any, **named: Any) -> Any:
        if str(self.id) not in returned:
            return execute_async(self, *rest, **named)
        future: Future[Any] = Future()
        future.set_result(self.output)
        return future

    Task.execute_sync = sync
    Task.execute_async = asynchronous
