"""Patterns over UTF-8 bytes, matched in linear time, and the spans that they find.

``compiled`` returns a pattern for RE2, which searches a whole text in linear time. ``anchored`` returns one
for Python's ``re``, which matches at a given position in a tenth of the time. Its repetitions must be
possessive, so that it never goes back.
"""

import re
from collections.abc import Iterable
from typing import Any

import re2
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER

# The first byte of a match, and the byte after it.
TextSpan = tuple[int, int]

_MARKER = MARKER.encode()
_OPTIONS = re2.Options()
# One byte is one character, so that positions are those of bytes, and a text need not be valid UTF-8.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


def compiled(pattern: str) -> Any:
    """Return a pattern for bytes. Its character classes are ASCII."""
    return re2.compile(pattern.encode(), _OPTIONS)


def anchored(pattern: str) -> re.Pattern[bytes]:
    """Return a pattern that is only matched at a given position. Write ``x*+`` instead of ``x*``."""
    return re.compile(pattern.encode())


def words_search(words: Iterable[str]) -> BytesAhoCorasick:
    """Return a search for all of these words in one pass."""
    encoded = sorted({word.encode("utf-8", "surrogateescape") for word in words})
    return BytesAhoCorasick(encoded, matchkind=MatchKind.LeftmostLongest)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text that lists them, separated by spaces."""
    return tuple(text.split())


def merged(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Return the spans in order, overlapping ones merged."""
    result: list[TextSpan] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        elif start < end:
            result.append((start, end))
    return result


def without_spans(data: bytes, spans: Iterable[TextSpan]) -> bytes:
    """Return the text with the marker in place of these spans, which are in order and do not overlap."""
    parts: list[bytes] = []
    position = 0
    for start, end in spans:
        parts += (data[position:start], _MARKER)
        position = end
    return b"".join((*parts, data[position:]))
