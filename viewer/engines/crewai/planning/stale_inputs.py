"""Finds the inputs that are part of the prompt of a task."""

import json
import re
from collections.abc import Collection
from typing import Any

from viewer.engines.contents import Agent
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.planning.placeholders import placeholder_names
from viewer.redaction.marker import MARKER

# A shorter value, such as 1, is part of many texts by chance.
MIN_CHARACTERS = 2


def inputs_used(contents: Contents, task: Task) -> frozenset[str]:
    """The names of the inputs in the texts of the task and of its agent.

    They are found by placeholder in the task's texts. A checkpoint does not store the templates of an agent,
    so the agent's texts are searched for the values of the inputs as whole words.
    """
    named = placeholder_names(f"{task.template}\n{task.expected_template}")
    agents = [agent for agent in contents.agents if agent.role == task.agent]
    named_by_value = [
        name for name in contents.inputs if any(_mentions(agent, name, contents) for agent in agents)
    ]
    return frozenset([*named, *named_by_value])


def roles_mentioning(contents: Contents, names: Collection[str]) -> list[str]:
    """The roles of the agents whose texts contain the stored values of these inputs."""
    return [
        agent.role for agent in contents.agents if any(_mentions(agent, name, contents) for name in names)
    ]


def _mentions(agent: Agent, name: str, contents: Contents) -> bool:
    texts = f"{agent.role}\n{agent.goal}\n{agent.backstory}"
    return name in contents.inputs and _contains(contents.inputs[name], texts)


def _contains(value: Any, texts: str) -> bool:
    """Whether the texts contain the value as the engine formats it."""
    formatted = value.strip() if isinstance(value, str) else str(value)
    if isinstance(value, bool) or value is None or len(formatted) < MIN_CHARACTERS:
        return False
    if MARKER in json.dumps(value, ensure_ascii=False):
        return False
    return re.search(rf"(?<!\w){re.escape(formatted)}(?!\w)", texts) is not None
