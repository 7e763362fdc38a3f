"""Differences between texts and between JSON values, within a time limit."""

import json
import re
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from diff_match_patch import diff_match_patch

# Aligns two sequences within a time limit.


# Beyond this many items, both together, a sequence is not aligned: some inputs take quadratic time, and not
# every step of the library observes its time limit.
MAX_ITEMS = 20_000
# Each item is represented by a character; the ones before are too few, and contain surrogates.
_FIRST = 0x10000

H = TypeVar("H", bound=Hashable)


class Block(NamedTuple):
    """Items of both sequences: equal ones, or ones that the other lacks."""

    is_equal: bool
    before: slice
    after: slice


@dataclass(slots=True)
class Clock:
    """The time that is left of a limit in seconds, shared by several alignments."""

    seconds: float = 1.0
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds, never less than a millisecond: the library takes 0 for no limit."""
        return max(self.seconds - (time.monotonic() - self.began), 0.001)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.began > self.seconds


def align(before: Sequence[H], after: Sequence[H], clock: Clock) -> list[Block] | None:
    """Return the blocks of both sequences, in order; None if too many items differ.

    When the time is over, what is left is one block of changed items.
    """
    count = min(len(before), len(after))
    start = next((at for at in range(count) if before[at] != after[at]), count)
    count -= start
    end = next((at for at in range(count) if before[-1 - at] != after[-1 - at]), count)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) + len(new) > MAX_ITEMS:
        return None
    codes: dict[H, str] = {}
    texts = ["".join(_code(item, codes) for item in items) for items in (old, new)]
    library = diff_match_patch()
    library.Diff_Timeout = clock.left
    steps = library.diff_main(*texts, False)
    # Isolated equal words within changed text are changes for a reader.
    library.diff_cleanupSemantic(steps)
    return _blocks([(start, start, True), *_lengths(steps), (end, end, True)])


def _code(item: H, codes: dict[H, str]) -> str:
    return codes.setdefault(item, chr(_FIRST + len(codes)))


def _lengths(steps: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int, bool]]:
    """How many items of each side the library deletes, inserts or finds equal."""
    for kind, text in steps:
        yield len(text) * (kind <= 0), len(text) * (kind >= 0), not kind


def _blocks(steps: Iterable[tuple[int, int, bool]]) -> list[Block]:
    """Blocks of these lengths; neighbours of the same kind are one block."""
    blocks: list[Block] = []
    old = new = 0
    for olds, news, is_equal in steps:
        before, after = slice(old, old + olds), slice(new, new + news)
        old, new = before.stop, after.stop
        if not olds and not news:
            continue
        if blocks and blocks[-1].is_equal == is_equal:
            last = blocks.pop()
            before, after = slice(last.before.start, old), slice(last.after.start, new)
        blocks.append(Block(is_equal, before, after))
    return blocks


# The differences between two texts, word by word.


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


# Long equal stretches of a compared text, folded.


_WORD = re.compile(r"\S+\s*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# How many words or lines are shown before and after a change, and how many more a fold needs.
_CONTEXT = {"words": 18, "lines": 3}
_LEAST = {"words": 24, "lines": 4}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Pieces of a text. ``folded`` is how many words or lines it hides, 0 if it is shown."""

    pieces: tuple[Piece, ...]
    folded: int = 0


def folded(pieces: Pieces, unit: str) -> list[Stretch]:
    """Return the pieces with long equal stretches folded. ``unit`` is ``words`` or ``lines``.

    A text without any change is one stretch that is shown.
    """
    if not any(piece.changed for piece in pieces):
        return [Stretch(tuple(pieces))]
    stretches: list[Stretch] = []
    shown: list[Piece] = []
    for at, piece in enumerate(pieces):
        for text, count in _parts(piece, unit, at == 0, at == len(pieces) - 1):
            if count:
                stretches += [Stretch(tuple(shown))] if shown else []
                stretches.append(Stretch((Piece(text, False),), count))
                shown = []
            elif text:
                shown.append(Piece(text, piece.changed))
    return stretches + ([Stretch(tuple(shown))] if shown else [])


def _parts(piece: Piece, unit: str, is_first: bool, is_last: bool) -> Iterator[tuple[str, int]]:
    """The texts of a piece, each with the number of words or lines that it hides."""
    pattern, context = (_LINE if unit == "lines" else _WORD), _CONTEXT[unit]
    ends = [] if piece.changed else [match.end() for match in pattern.finditer(piece.text)]
    head, tail = (0 if is_first else context), (0 if is_last else context)
    hidden = len(ends) - head - tail
    if hidden < _LEAST[unit]:
        yield piece.text, 0
        return
    start, end = ends[head - 1] if head else 0, ends[len(ends) - tail - 1]
    yield piece.text[:start], 0
    yield piece.text[start:end], hidden
    yield piece.text[end:], 0


def merged(texts: Sequence[Pieces]) -> Pieces:
    """The pieces of one text that was compared with several others: changed where any of them differs."""
    if len(texts) == 1:
        return texts[0]
    edges: dict[int, int] = {}
    for pieces in texts:
        at = 0
        for piece in pieces:
            start, at = at, at + len(piece.text)
            if piece.changed:
                edges[start] = edges.get(start, 0) + 1
                edges[at] = edges.get(at, 0) - 1
    whole = "".join(piece.text for piece in texts[0])
    found: Pieces = []
    position = depth = 0
    for edge in [*sorted(edges), len(whole)]:
        if edge > position:
            found.append(Piece(whole[position:edge], depth > 0))
        position, depth = edge, depth + edges.get(edge, 0)
    return found


# The differences between two JSON values, by their structure.
#
# Both sides are written as indented JSON. The order of an object's names does not matter; the items of lists
# are aligned.


# Beyond this many values or this depth, the lines of the JSON are compared instead.
MAX_VALUES, MAX_DEPTH = 200_000, 60
# The words of texts from this length on are compared; shorter ones are marked as a whole.
_LONG = 30


def json_difference(before: Any, after: Any, clock: Clock | None = None) -> tuple[Pieces, Pieces]:
    """Return the pieces of both values' JSON, in order. It takes no longer than ``difference``."""
    clock = clock or Clock()
    try:
        writer = _Writer(clock)
        writer.digest(before, 0)
        writer.digest(after, 0)
    except _TooLarge:
        return difference(json_text(before), json_text(after), clock)
    writer.write(before, after, 0)
    return writer.sides[0].pieces, writer.sides[1].pieces


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same. Unlike in Python, ``true`` is not 1 and 1.0 is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and bool(one == other)


def json_text(value: Any) -> str:
    """The value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


class _TooLarge(Exception):
    """The values have too many parts, or are nested too deeply."""


class _Writer:
    """Writes two values into ``sides``, with what differs marked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sides: Sides = (PieceCollector(), PieceCollector())
        self._digests: dict[int, int] = {}
        self._count = 0

    def digest(self, value: Any, depth: int) -> int:
        """A number that is the same for equal values. Raises _TooLarge."""
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_VALUES:
            raise _TooLarge
        if isinstance(value, dict):
            found = hash(("{", frozenset((name, self.digest(one, depth + 1)) for name, one in value.items())))
        elif isinstance(value, list):
            found = hash(("[", *(self.digest(one, depth + 1) for one in value)))
        else:
            return hash((type(value).__name__, str(value)))
        self._digests[id(value)] = found
        return found

    def _digest_of(self, value: Any) -> int:
        known = self._digests.get(id(value)) if isinstance(value, dict | list) else None
        return hash((type(value).__name__, str(value))) if known is None else known

    def write(self, before: Any, after: Any, depth: int) -> None:
        """Write both values at the present position."""
        if self._digest_of(before) == self._digest_of(after):
            self._add(_nested(before, depth), _nested(after, depth), False)
        elif self.clock.is_over:
            self._add(_nested(before, depth), _nested(after, depth), True)
        elif before and after and isinstance(before, dict) and isinstance(after, dict):
            self._write_objects(before, after, depth)
        elif before and after and isinstance(before, list) and isinstance(after, list):
            self._write_lists(before, after, depth)
        elif isinstance(before, str) and isinstance(after, str) and len(before) > _LONG < len(after):
            compare(_nested(before, depth), _nested(after, depth), self.sides, self.clock)
        else:
            self._add(_nested(before, depth), _nested(after, depth), True)

    def _write_objects(self, before: dict[str, Any], after: dict[str, Any], depth: int) -> None:
        self._add("{", "{", False)
        names = dict.fromkeys([*before, *after])
        # In the order of the first, so that its text is the same whatever it is compared with.
        ends = [[name for name in names if name in side][-1] for side in (before, after)]
        for name in names:
            label = f"{json.dumps(name, ensure_ascii=False)}: "
            commas = ["" if name == end else "," for end in ends]
            if name in before and name in after:
                self._add(_line(depth + 1) + label, _line(depth + 1) + label, False)
                self.write(before[name], after[name], depth + 1)
                self._add(commas[0], commas[1], False)
            else:
                at = 0 if name in before else 1
                value = (before, after)[at][name]
                self.sides[at].add(_line(depth + 1) + label + _nested(value, depth + 1) + commas[at], True)
        self._add(_line(depth) + "}", _line(depth) + "}", False)

    def _write_lists(self, before: list[Any], after: list[Any], depth: int) -> None:
        self._add("[", "[", False)
        keys = [[self._digest_of(item) for item in side] for side in (before, after)]
        blocks = align(keys[0], keys[1], self.clock)
        if blocks is None:
            blocks = [Block(False, slice(0, len(before)), slice(0, len(after)))]
        for is_equal, olds, news in blocks:
            self._write_items((before, olds), (after, news), is_equal, depth)
        self._add(_line(depth) + "]", _line(depth) + "]", False)

    def _write_items(
        self, before: tuple[list[Any], slice], after: tuple[list[Any], slice], is_equal: bool, depth: int
    ) -> None:
        """Write a block of items. Of changed ones, the first is compared with the first, and so on."""
        olds, news = (range(part.start, part.stop) for _items, part in (before, after))
        paired = min(len(olds), len(news))
        for old, new in zip(olds, news, strict=False):
            self._add(_line(depth + 1), _line(depth + 1), False)
            self.write(before[0][old], after[0][new], depth + 1)
            self._add(_comma(old, before[0]), _comma(new, after[0]), False)
        for side, (items, _part), rest in zip(self.sides, (before, after), (olds, news), strict=True):
            for position in rest[paired:]:
                text = _line(depth + 1) + _nested(items[position], depth + 1) + _comma(position, items)
                side.add(text, not is_equal)

    def _add(self, before: str, after: str, changed: bool) -> None:
        add_both(self.sides, before, after, changed)


def _comma(position: int, items: list[Any]) -> str:
    return "" if position == len(items) - 1 else ","


def _line(depth: int) -> str:
    return "\n" + "  " * depth


def _nested(value: Any, depth: int) -> str:
    """The value's JSON, indented as it is at this depth."""
    text = json_text(value)
    return text.replace("\n", _line(depth)) if depth and isinstance(value, dict | list) else text
