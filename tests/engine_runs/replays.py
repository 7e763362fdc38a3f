"""Requests that replay a model call."""

from collections.abc import Mapping
from typing import Any

TOOL = {
    "name": "search_archive",
    "description": "Searches the archive.",
    "schema": {"type": "object", "properties": {"words": {"type": "string"}}},
}
# A conversation in which a tool was used.
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "text": "You write."},
    {"role": "user", "text": "Write about tea."},
    {
        "role": "assistant",
        "text": "",
        "tools": [{"name": "search_archive", "args": {"words": "tea"}, "id": "c1"}],
    },
    {"role": "tool", "text": "nothing about tea", "name": "search_archive", "answers": "c1"},
]


def as_replay(request: Mapping[str, Any], *models: str, times: int = 1, **call: Any) -> dict[str, Any]:
    """The request with the kind replay. ``call`` has messages, tools and parameters."""
    return {
        **request,
        "kind": "replay",
        "call": {"messages": MESSAGES, "tools": [], "parameters": {}, "models": list(models), **call},
        "replay": {"models": list(models), "times": times, "recorded": "", "model": models[0], "agent": ""},
    }
