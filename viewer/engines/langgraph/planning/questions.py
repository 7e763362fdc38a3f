"""The questions that a checkpoint or a run waits for: interrupts, and the answers that they suggest."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.planning.answers import suggested
from viewer.engines.langgraph.tabs import preview
from viewer.engines.planning.editable import OpenQuestion

# The keys of a value that usually hold the text of a question, as in the runner's interrupts.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")


def open_questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The interrupts of waiting tasks, each id once: an interrupt of a subgraph is stored twice."""
    seen: set[str] = set()
    for task in contents.tasks:
        for one in task.questions:
            if not one.id or one.id not in seen:
                seen.add(one.id)
                asked = _prompt(one.value)
                prompt = f"{task.node}: {_in_words(asked)}".removeprefix(": ")
                options = suggested(one.value, asked, one.schema)
                yield OpenQuestion(one.id, prompt, options, one.schema)


def asked_question(prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
    """The question of a run, with the answers that it suggests; None if its value was cut or is not JSON."""
    if context.get("is_cut"):
        return None
    output = context.get("output")
    try:
        value = json.loads(output) if isinstance(output, str) and output else prompt
    except (ValueError, RecursionError):
        return None
    schema = _schema(context.get("schema"))
    options = suggested(value, _prompt(value), schema)
    return OpenQuestion(str(context.get("interrupt") or ""), prompt, options, schema)


def _schema(text: Any) -> Mapping[str, Any] | None:
    """The schema of an answer, of which the runner writes the text."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _in_words(asked: Any) -> str:
    """The question on one line. A mapping without nested values becomes names and values, not JSON."""
    plain = (
        isinstance(asked, dict) and asked and not any(isinstance(one, dict | list) for one in asked.values())
    )
    return preview(", ".join(f"{name}: {value}" for name, value in asked.items()) if plain else asked)


def _prompt(value: Any) -> Any:
    """The text of the question in an interrupt's value, or else the whole value."""
    found = (value.get(name) for name in PROMPTS) if isinstance(value, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), value)
