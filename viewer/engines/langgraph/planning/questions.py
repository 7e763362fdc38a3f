"""What a checkpoint or a run waits for: its interrupts, and the answers that their values suggest."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from viewer.engines.editable import OpenQuestion
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.planning.answers import suggested
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
                asked = _prompt(one.value)
                prompt = f"{task.node}: {preview(asked)}".removeprefix(": ")
                yield OpenQuestion(one.id, prompt, suggested(one.value, asked))


def asked_question(prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
    """What a run asks, with the answers that it suggests; None if it was too long to be known in full."""
    if context.get("is_cut"):
        return None
    output = context.get("output")
    try:
        value = json.loads(output) if isinstance(output, str) and output else prompt
    except (ValueError, RecursionError):
        return None
    return OpenQuestion(str(context.get("interrupt") or ""), prompt, suggested(value, _prompt(value)))


def _prompt(value: Any) -> Any:
    """The text in an interrupt's value that asks, else the whole value."""
    found = (value.get(name) for name in PROMPTS) if isinstance(value, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), value)
