"""What a person is told, as text and values: the web's side translates it (viewer/messages/message.py)."""

from __future__ import annotations

from typing import TypedDict


class Words(TypedDict):
    text: str
    values: dict[str, str | int | list[Words]]


def words(text: str, /, **values: object) -> Words:
    """The text and what fills it: numbers, and sentences as a list of words. Of anything else, what it
    says: keys are looked for in texts.
    """
    plain = {name: value if isinstance(value, int | list) else str(value) for name, value in values.items()}
    return Words(text=text, values=plain)


def english(words: Words) -> str:
    """The text with its values in it."""
    filled = {name: _said(value) for name, value in words["values"].items()}
    return words["text"] % filled if filled else words["text"]


def _said(value: str | int | list[Words]) -> str | int:
    return " ".join(map(english, value)) if isinstance(value, list) else value


def gettext_noop(text: str) -> str:
    """The text itself, marked for whoever collects what is to be translated."""
    return text
