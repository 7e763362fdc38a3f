"""What a checkpoint of LangGraph waits for: its interrupts."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.editable import OpenQuestion
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.format.super_steps import mapping, sequence
from viewer.engines.langgraph.tabs import preview

# The keys of a value that usually hold what a person is asked, as in the runner's interrupts.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")
CHOICES = ("options", "choices", "actions")


def open_questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The interrupts of the tasks that wait, each once: that of a subgraph is there twice."""
    seen: set[str] = set()
    for task in contents.tasks:
        for one in task.interrupts if task.status == "waiting" else ():
            if not one.id or one.id not in seen:
                seen.add(one.id)
                prompt = f"{task.node}: {preview(_prompt(one.value))}".removeprefix(": ")
                yield OpenQuestion(one.id, prompt, _choices(one.value))


def _choices(value: Any) -> tuple[str, ...]:
    """The answers that an interrupt's value suggests, as in the runner's interrupts."""
    if not isinstance(value, dict):
        return ()
    configs, requests = value.get("review_configs"), value.get("action_requests")
    if isinstance(configs, list) and isinstance(requests, list):
        allowed = [sequence(mapping(one).get("allowed_decisions")) for one in configs]
        return tuple(one for one in ("approve", "reject") if all(one in each for each in allowed))
    for name in CHOICES:
        found = value.get(name)
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return tuple(found)
    return ()


def _prompt(value: Any) -> Any:
    """The text in an interrupt's value that asks, else the whole value."""
    found = (value.get(name) for name in PROMPTS) if isinstance(value, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), value)
