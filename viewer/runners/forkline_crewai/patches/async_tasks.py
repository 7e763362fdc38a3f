"""Has a crew hear of whatever ends one of its async tasks."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from crewai.task import Task


def guard() -> None:
    """Tell the crew what the engine tells it of exceptions alone.

    An async task runs in a thread of its own. Where code in it leaves the program, or a library of it
    panics, the thread is gone, and the crew would wait for its output for ever.
    """
    execute = Task._execute_task_async

    def executed(task: Any, agent: Any, context: Any, tools: Any, future: Future[Any]) -> None:
        try:
            execute(task, agent, context, tools, future)
        except BaseException as error:
            future.set_exception(error)

    Task._execute_task_async = executed
