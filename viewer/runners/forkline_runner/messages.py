"""Messages for people: the runner sends a code and its values, and the web side shows the text.

The texts are those of viewer/messages/runner_catalog.py. The runner needs them in English, for its exceptions
and log.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TypedDict

CATALOG = Path(__file__).resolve().parents[2] / "messages" / "runner_catalog.py"
_PLACEHOLDER = re.compile(r"%\((\w+)\)([dsr])")


class Message(TypedDict):
    """The same as ``UserMessage`` of viewer/messages/message.py."""

    code: str
    values: dict[str, str | int | list[Message]]


def message(code: str, /, **values: object) -> Message:
    """Return the message of this code. Values other than integers and lists of messages become texts."""
    plain = {name: value if isinstance(value, int | list) else str(value) for name, value in values.items()}
    return Message(code=code, values=plain)


def plain_text(text: object) -> Message:
    """Return a message that consists of this text."""
    return message("plain_text", text=text)


def english(sent: Message) -> str:
    """Return the text of a message in English."""
    if sent["code"] == "plain_text":
        return str(sent["values"]["text"])

    def value_at(found: re.Match[str]) -> str:
        value = sent["values"].get(found[1], found[0])
        if isinstance(value, list):
            return " ".join(map(english, value))
        return repr(value) if found[2] == "r" else str(value)

    text = texts().get(sent["code"])
    return f"{sent['code']} {sent['values']}" if text is None else _PLACEHOLDER.sub(value_at, text)


@cache
def texts() -> dict[str, str]:
    """Return the runners' texts by code. Loaded by path: a project may have a package called ``viewer``."""
    spec = importlib.util.spec_from_file_location("forkline_texts", CATALOG)
    assert spec is not None and spec.loader is not None, CATALOG
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.MESSAGES
    return found


class Refused(Exception):
    """The run was refused: nothing has run and nothing was paid. ``message`` says why, and what to do."""

    def __init__(self, code: str, /, **values: object) -> None:
        self.message = message(code, **values)
        super().__init__(english(self.message))
