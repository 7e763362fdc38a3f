"""The differences between two texts, word by word."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
# Beyond this many words lines are compared, and beyond this many lines nothing is: a page must not wait.
MAX_TOKENS = 4_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and whether the other text lacks it."""

    text: str
    changed: bool


def difference(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of both texts, in order. Joined, they are the texts again."""
    for split in (TOKENS.findall, _lines):
        old, new = split(before), split(after)
        if len(old) + len(new) <= MAX_TOKENS:
            return _compared(old, new)
    return [Piece(before, True)] if before else [], [Piece(after, True)] if after else []


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _compared(old: list[str], new: list[str]) -> tuple[list[Piece], list[Piece]]:
    before: list[Piece] = []
    after: list[Piece] = []
    steps = SequenceMatcher(None, old, new).get_opcodes()
    for index, (tag, old_from, old_to, new_from, new_to) in enumerate(steps):
        old_text, new_text = "".join(old[old_from:old_to]), "".join(new[new_from:new_to])
        # A blank between two changed words belongs to the change: marks of single words are hard to read.
        between = tag == "equal" and not old_text.strip(" ") and 0 < index < len(steps) - 1
        changed = tag != "equal" or between
        _add(before, old_text, changed)
        _add(after, new_text, changed)
    return before, after


def _add(pieces: list[Piece], text: str, changed: bool) -> None:
    """Append the text, to the last piece if that is of the same kind."""
    if not text:
        return
    if pieces and pieces[-1].changed == changed:
        pieces[-1] = Piece(pieces[-1].text + text, changed)
    else:
        pieces.append(Piece(text, changed))
