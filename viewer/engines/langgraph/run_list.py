"""Reads what a list of runs shows from a checkpoint's contents."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.contents.conversation import messages_in
from viewer.engines.langgraph.format.super_steps import mapping, sequence


def run_inputs(contents: Contents) -> Mapping[str, Any]:
    """The user's first message under an empty name, or else the inputs of the graph by name."""
    start = mapping(mapping(contents.checkpoint.get("channel_values")).get("__start__"))
    given = start or contents.channels
    for value in given.values():
        text = _first_user_text(value)
        if text:
            return {"": text}
    return start


def _first_user_text(value: Any) -> str:
    """The text of the user's first message in a conversation; empty for any other value."""
    content = next((one.text for one in messages_in(value) if one.role == "user" and one.text), "")
    # LangChain also accepts pairs of a role and a text.
    pairs = [one for one in map(sequence, sequence(value)) if len(one) == 2 and one[0] in ("user", "human")]
    return content or next((str(text) for _role, text in pairs), "")
