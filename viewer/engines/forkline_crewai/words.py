"""What a person is told, as text and values: the web's side translates it (viewer/words.py)."""

from typing import TypedDict


class Words(TypedDict):
    text: str
    values: dict[str, str | int]


def words(text: str, /, **values: object) -> Words:
    """The text and what fills it. Of what is no number, what it says: keys are looked for in texts."""
    plain = {name: value if isinstance(value, int) else str(value) for name, value in values.items()}
    return Words(text=text, values=plain)


def english(words: Words) -> str:
    """The text with its values in it."""
    return words["text"] % words["values"] if words["values"] else words["text"]


def gettext_noop(text: str) -> str:
    """The text itself, marked for whoever collects what is to be translated."""
    return text
