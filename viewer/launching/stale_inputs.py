"""Which inputs stand in what a finished task's model was told."""

import json
import re
from collections.abc import Collection
from typing import Any

from viewer.engines.crewai.contents import Agent, Contents, Task
from viewer.engines.crewai.placeholders import placeholder_names
from viewer.redaction.marker import MARKER

# A shorter value, such as 1, stands in many a text by chance.
FEWEST_CHARACTERS = 2


def inputs_used(contents: Contents, task: Task) -> frozenset[str]:
    """The inputs in the task's texts, by their placeholders, and in its agent's, by their values.

    A checkpoint keeps no template of an agent: there a value is found as whole words.
    """
    named = placeholder_names(f"{task.template}\n{task.expected_template}")
    agents = [agent for agent in contents.agents if agent.role == task.agent]
    spoken = [name for name in contents.inputs if any(_speaks_of(agent, name, contents) for agent in agents)]
    return frozenset([*named, *spoken])


def roles_speaking_of(contents: Contents, names: Collection[str]) -> list[str]:
    """The roles of the agents that were told the stored values of these inputs."""
    return [
        agent.role for agent in contents.agents if any(_speaks_of(agent, name, contents) for name in names)
    ]


def _speaks_of(agent: Agent, name: str, contents: Contents) -> bool:
    told = f"{agent.role}\n{agent.goal}\n{agent.backstory}"
    return name in contents.inputs and _stands_in(contents.inputs[name], told)


def _stands_in(value: Any, told: str) -> bool:
    """Whether the value is said there, as the engine writes values into texts."""
    said = value.strip() if isinstance(value, str) else str(value)
    if isinstance(value, bool) or value is None or len(said) < FEWEST_CHARACTERS:
        return False
    if MARKER in json.dumps(value, ensure_ascii=False):
        return False
    return re.search(rf"(?<!\w){re.escape(said)}(?!\w)", told) is not None
