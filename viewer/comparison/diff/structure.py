"""The differences between two JSON values, by their structure.

Both sides are written as indented JSON. The order of an object's names does not matter; the items of lists
are aligned.
"""

import json
from typing import Any

from viewer.comparison.diff.alignment import Block, Clock, align
from viewer.comparison.diff.words import PieceCollector, Pieces, Sides, add_both, compare, difference

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
