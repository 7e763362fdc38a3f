"""Stop a crew when any exception ends the thread of one of its async tasks.

Patches: crewai.task.Task._execute_task_async
Versions: 1.14.2 and newer
Why: The engine passes only an ``Exception`` on to the crew. If code in the task's thread exits the program,
    or a library panics, the thread is gone and the crew waits for its output forever.
Test: tests/runners/runs/test_endings.py::test_an_async_task_that_exits_the_program_does_not_block_its_crew
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from crewai.task import Task


def apply() -> None:
    """Pass every exception of an async task's thread on to its crew."""
    execute = Task._execute_task_async

    def executed(task: Any, agent: Any, context: Any, tools: Any, future: Future[Any]) -> None:
        try:
            execute(task, agent, context, tools, future)
        except BaseException as error:
            future.set_exception(error)

    Task._execute_task_async = executed
