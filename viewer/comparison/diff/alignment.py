"""Aligns two sequences within a time limit."""

import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from diff_match_patch import diff_match_patch

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
