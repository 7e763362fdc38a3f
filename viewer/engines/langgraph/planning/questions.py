"""What a checkpoint of LangGraph waits for: its interrupts."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.editable import OpenQuestion
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.tabs import preview

# The keys of a value that usually hold what a person is asked, as in the runner's interrupts.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")


def open_questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The interrupts of the tasks that wait, each once: that of a subgraph is there twice."""
    seen: set[str] = set()
    for task in contents.tasks:
        for one in task.interrupts if task.status == "waiting" else ():
            if not one.id or one.id not in seen:
                seen.add(one.id)
                yield OpenQuestion(one.id, f"{task.node}: {preview(_prompt(one.value))}".removeprefix(": "))


def _prompt(value: Any) -> Any:
    """The text in an interrupt's value that asks, else the whole value."""
    found = (value.get(name) for name in PROMPTS) if isinstance(value, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), value)
