"""The texts of a checkpoint that the search finds."""

from dataclasses import dataclass
from enum import StrEnum


class TextKind(StrEnum):
    """What a text is, as rows store it."""

    INPUT = "input"
    OUTPUT = "output"
    PROMPT = "prompt"
    MESSAGE = "message"
    TOOL = "tool"
    ERROR = "error"
    STATE = "state"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class SearchText:
    """One text. ``query_string`` is the query string of the page that shows it, such as ``tab=inputs``.

    ``unit``, ``agent`` and ``model`` are empty if it belongs to none.
    """

    kind: TextKind
    text: str
    query_string: str
    unit: str = ""
    agent: str = ""
    model: str = ""
