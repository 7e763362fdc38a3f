"""What a person may change in a checkpoint of LangGraph before a fork."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.editable import Editable, HiddenPlace
from viewer.engines.langgraph.contents import Contents
from viewer.engines.plan import Edits, Step
from viewer.messages.message import UserMessage


def editable(contents: Contents) -> Editable:
    """Nothing."""
    return Editable()


def missing_prompt(contents: Contents, edits: Edits) -> UserMessage | None:
    """Why it cannot run before a person types a prompt; None if it can."""
    return None


def hidden_places(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[HiddenPlace]:
    """The values that a run reads from the checkpoint and no edit replaces."""
    return iter(())


def missing_code(contents: Contents) -> UserMessage | None:
    """What a run without the project's code would lack."""
    return None


def former_values(contents: Contents, edits: Edits) -> UserMessage | None:
    """Who keeps an input's former value without the project's code."""
    return None


def kickoff_inputs(contents: Contents, kind: str) -> Mapping[str, Any]:
    """What a run was started with, from its first checkpoint."""
    return contents.inputs
