"""Patterns over UTF-8 bytes, matched by RE2: in linear time, whatever the text."""

from collections.abc import Iterable
from typing import Any

import re2
from ahocorasick_rs import BytesAhoCorasick, MatchKind

Span = tuple[int, int]

_OPTIONS = re2.Options()
# One byte is one sign: positions are those of the bytes, and no text has to be valid UTF-8.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


def compiled(pattern: str) -> Any:
    """A pattern for bytes. Its classes know ASCII only."""
    return re2.compile(pattern.encode(), _OPTIONS)


def words_search(words: Iterable[str]) -> BytesAhoCorasick:
    """A search for all of these words in one pass."""
    return BytesAhoCorasick(sorted({word.encode() for word in words}), matchkind=MatchKind.LeftmostLongest)


def words(text: str) -> tuple[str, ...]:
    """The words of a text that lists them."""
    return tuple(text.split())


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same parts of a text in order, without overlaps."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        elif start < end:
            result.append((start, end))
    return result
