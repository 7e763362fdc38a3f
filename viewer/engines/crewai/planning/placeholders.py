"""Placeholders such as ``{topic}``, which CrewAI replaces with the values of a run's inputs."""

import re

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)\}")


def placeholder_names(text: str) -> list[str]:
    """The names in the text's placeholders, in order, with repetitions."""
    return PLACEHOLDER.findall(text)


def has_placeholder(text: str, name: str) -> bool:
    """Whether the text has a placeholder for this input."""
    return "{" + name + "}" in text
