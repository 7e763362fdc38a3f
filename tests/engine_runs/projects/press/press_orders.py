"""Crews whose tasks do not simply follow each other."""

from typing import Any

from crewai import Agent, Crew, Process, Task
from crewai.tasks.conditional_task import ConditionalTask
from crewai.utilities.constants import NOT_SPECIFIED
from press_parts import TEXTS, model, plain


def hierarchical() -> Crew:
    crew = plain()
    for task in crew.tasks:
        task.agent = None
    return Crew(
        name="press",
        agents=crew.agents,
        tasks=crew.tasks,
        process=Process.hierarchical,
        manager_llm=model(),
    )


def asynchronous() -> Crew:
    """The second and third run side by side; the last waits for both."""
    crew = plain()
    crew.tasks[1].async_execution = crew.tasks[2].async_execution = True
    return crew


def joining() -> Crew:
    """The last reads the outputs of all others, two of which run side by side."""
    crew = asynchronous()
    crew.tasks[3].context = NOT_SPECIFIED
    return crew


def never(output: Any) -> bool:
    return False


def always(output: Any) -> bool:
    return True


def conditional() -> Crew:
    """The second task's condition does not hold, the third's does."""
    agent = Agent(role="Writer", goal="Write", backstory="Terse", llm=model())
    conditions: tuple[Any, ...] = (None, never, always, None)
    tasks = [
        Task(description=text, expected_output="words", agent=agent)
        if condition is None
        else ConditionalTask(description=text, expected_output="words", agent=agent, condition=condition)
        for text, condition in zip(TEXTS, conditions, strict=True)
    ]
    return Crew(name="press", agents=[agent], tasks=tasks)
