"""Puts inputs into texts as the engine does, but leaves placeholders without an input unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# What the engine considers a placeholder.
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)}")


def placeholders(text: str | None) -> set[str]:
    """Return the names in braces."""
    return set(PLACEHOLDER.findall(text or ""))


def filled(text: str, inputs: Mapping[str, Any]) -> str:
    """Return the text with the inputs filled in."""
    return PLACEHOLDER.sub(lambda found: str(inputs.get(found[1], found[0])), text)


def can_become(template: str, text: str) -> bool:
    """Return whether some inputs turn the template into this text."""
    pieces = PLACEHOLDER.split(template)[::2]
    return re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None


def interpolate_task(task: Any, inputs: Mapping[str, Any]) -> None:
    """Fill the templates of the task's description and expected output."""
    texts = (
        task._original_description or task.description,
        task._original_expected_output or task.expected_output,
    )
    task.interpolate_inputs_and_add_conversation_history(_filled(inputs, *texts, task.output_file))


def interpolate_agent(agent: Any, inputs: Mapping[str, Any]) -> None:
    """Fill the templates of the agent's role, goal and backstory."""
    agent.interpolate_inputs(_filled(inputs, agent.role, agent.goal, agent.backstory))


def _filled(inputs: Mapping[str, Any], *texts: str | None) -> dict[str, Any]:
    """Return the inputs, with unknown placeholders mapped to themselves, as the engine would refuse them."""
    unknown = set().union(*(placeholders(text) for text in texts)) - inputs.keys()
    return {**{name: "{" + name + "}" for name in unknown}, **inputs}
