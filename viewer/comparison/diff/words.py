"""The differences between two texts, word by word."""

import re
from dataclasses import dataclass
from itertools import groupby

from viewer.comparison.diff.alignment import Clock, align

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
# Of a long text, lines and sentences are aligned first, and then the words of those that differ.
_LINES = re.compile(r"[^\n.!?]*[\n.!?]+[ \t]*|[^\n.!?]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and whether the other text lacks it."""

    text: str
    changed: bool


Pieces = list[Piece]


class PieceCollector:
    """Collects the pieces of one text."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, bool]] = []

    def add(self, text: str, changed: bool) -> None:
        if text:
            self._parts.append((text, changed))

    @property
    def pieces(self) -> Pieces:
        """The pieces, with neighbours of the same kind joined."""
        grouped = groupby(self._parts, key=lambda part: part[1])
        return [Piece("".join(text for text, _ in parts), changed) for changed, parts in grouped]


Sides = tuple[PieceCollector, PieceCollector]


def difference(before: str, after: str, clock: Clock | None = None) -> tuple[Pieces, Pieces]:
    """Return the pieces of both texts, in order. Joined, they are the texts again.

    It takes no longer than the clock allows, by default a second; longer texts are marked more coarsely.
    """
    sides = (PieceCollector(), PieceCollector())
    compare(before, after, sides, clock or Clock())
    return sides[0].pieces, sides[1].pieces


def compare(before: str, after: str, sides: Sides, clock: Clock) -> None:
    """Add both texts to their sides, with what differs marked."""
    if before == after:
        add_both(sides, before, after, False)
        return
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    blocks = align(old, new, clock)
    if blocks is not None:
        for is_equal, olds, news in blocks:
            add_both(sides, "".join(old[olds]), "".join(new[news]), not is_equal)
        return
    old, new = _LINES.findall(before), _LINES.findall(after)
    blocks = align(old, new, clock)
    if blocks is None or not any(block.is_equal for block in blocks):
        add_both(sides, before, after, True)
        return
    for is_equal, olds, news in blocks:
        was, now = "".join(old[olds]), "".join(new[news])
        if is_equal or not was or not now:
            add_both(sides, was, now, not is_equal)
        else:
            compare(was, now, sides, clock)


def add_both(sides: Sides, before: str, after: str, changed: bool) -> None:
    """Add a text to each side."""
    sides[0].add(before, changed)
    sides[1].add(after, changed)
