"""Puts inputs into texts, as the engine does, but leaves alone what no input is known for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The engine's own notion of a placeholder.
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)}")


def placeholders(text: str | None) -> set[str]:
    """The names that stand in braces."""
    return set(PLACEHOLDER.findall(text or ""))


def filled(text: str, inputs: Mapping[str, Any]) -> str:
    """The text as a person reads it, with the inputs that are known."""
    return PLACEHOLDER.sub(lambda found: str(inputs.get(found[1], found[0])), text)


def may_become(template: str, text: str) -> bool:
    """Whether some inputs could make the text of this template."""
    pieces = PLACEHOLDER.split(template)[::2]
    return re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None


def interpolate_task(task: Any, inputs: Mapping[str, Any]) -> None:
    """Write the task's description and expected output anew from their templates."""
    texts = (
        task._original_description or task.description,
        task._original_expected_output or task.expected_output,
    )
    task.interpolate_inputs_and_add_conversation_history(_filled(inputs, *texts, task.output_file))


def interpolate_agent(agent: Any, inputs: Mapping[str, Any]) -> None:
    """Write the agent's role, goal and backstory anew from their templates."""
    agent.interpolate_inputs(_filled(inputs, agent.role, agent.goal, agent.backstory))


def _filled(inputs: Mapping[str, Any], *texts: str | None) -> dict[str, Any]:
    """The inputs, and each unknown placeholder as it stands: the engine would refuse it, or send ''."""
    unknown = set().union(*(placeholders(text) for text in texts)) - inputs.keys()
    return {**{name: "{" + name + "}" for name in unknown}, **inputs}
