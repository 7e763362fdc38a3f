"""Texts without what may be inside a secret: colours, zero-width characters, line breaks, percent signs.

Terminals print colours and wrap lines, pages hide characters without a width, and URLs are percent-encoded. A
``PlainText`` lacks that, and maps the spans that are found in it to those of the original.
"""

import html
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from viewer.redaction.patterns import TextSpan, anchored, compiled, words_search

# Characters without a width: the soft hyphen, joiners, direction marks, variation selectors and others.
_RANGES = (range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070), range(0xFE00, 0xFE10))
_CODES = (0xAD, 0x34F, 0x61C, 0x180E, 0xFEFF, *(code for codes in _RANGES for code in codes))
INVISIBLE = tuple(map(chr, _CODES))
_INVISIBLE_TABLE = dict.fromkeys(_CODES)
# The escape character of terminals, also as JSON and programming languages write it.
_ESCAPE = r"(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))"
_ESCAPED_CODES = "|".join(f"{code:04x}|{code:04X}" for code in _CODES)
_INVISIBLE = compiled(
    rf"{_ESCAPE}(?:\[[0-9;:?]{{0,40}}[ -/]?[@-~]"
    rf"|\][^\x07\x1b\\]{{0,300}}(?:\x07|\\+u0007|{_ESCAPE}\\{{0,4}}))"
    rf"|{'|'.join(INVISIBLE)}|\\+u(?:{_ESCAPED_CODES})"
)
# A character as a URL, HTML or a wide font has it.
_ENCODED = compiled(
    r"%[0-9A-Fa-f]{2}|&(?:quot|apos|amp|lt|gt|#[0-9]{2,4}|#[xX][0-9A-Fa-f]{2,4});"
    r"|(?:\xef\xbc[\x90-\x99\xa1-\xba]|\xef\xbd[\x81-\x9a])+"
)
# What is encoded in a query that contains a name or an address: = : " @
# And the starts of entities and of wide letters.
_WIDE = tuple(bytes((0xEF, 0xBD, code)).decode() for code in range(0x81, 0x9B))
_ENTITIES = ("&quot;", "&apos;", "&#", "&amp;#", "&amp;quot;")
_ENCODED_SIGNS = ("%3D", "%3d", "%3A", "%3a", "%22", "%40", "%253", *_ENTITIES, *_WIDE)
# Variation selectors and the mark at the start of a file begin with two bytes that no other text has.
INVISIBLE_KEYWORDS = (
    *(one for one in INVISIBLE if not 0xFE00 <= ord(one) < 0xFE10),
    b"\xef\xb8".decode("utf-8", "surrogateescape"),
    *("\x1b[", "\x1b]", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e["),
    *(
        "\\u00ad",
        "\\u00AD",
        "\\u034",
        "\\u061",
        "\\u180",
        "\\u200",
        "\\u202",
        "\\u206",
        "\\ufe",
        "\\uFE",
        "\\uff4",
        "\\uff5",
        "\\uFF4",
        "\\uFF5",
    ),
)
# Keywords of obscured secrets, as ``rules.keywords`` has them of plain ones.
OBSCURED_KEYWORDS = (*INVISIBLE_KEYWORDS, *_ENCODED_SIGNS)
_INVISIBLE_SEARCH, _ENCODED_SEARCH = words_search(INVISIBLE_KEYWORDS), words_search(_ENCODED_SIGNS)
MAX_DECODINGS = 3

# Lines are wrapped at this width or a greater one.
_MIN_WIDTH = 40
# The vertical lines of boxes, also as JSON escapes them.
_BORDER = "(?:\u2502|\u2503|\u2551|\\\\+u(?:250[23]|2551)|\\|)"
_BREAK = rf"[ \t]{{0,200}}{_BORDER}?[ \t]{{0,40}}(?:\r?\n|\\+r\\+n|\\+n)[ \t]{{0,40}}{_BORDER}?[ \t]{{0,200}}"
_ANY_BREAK = compiled(rf"(?:=|\\)?{_BREAK}")
# A long word that may go on in the next line: of a box, of a wrapped line, or after a sign for that.
_WRAPPED = compiled(rf"[A-Za-z0-9_\-+/=.]{{8,300}}?((?:=|\\)?{_BREAK})([A-Za-z0-9_\-+/=.]{{3,300}})")
# A wide line, or a sign or border at the end of one. Most texts of short lines have neither.
_MAY_WRAP = compiled(rf"[^\r\n]{{{_MIN_WIDTH}}}\r?\n|[=\\]\r?\n|{_BORDER}[ \t]{{0,40}}\r?\n|\\n")
_TO_DIGIT = anchored(r"[^0-9]*+[0-9]")


class PlainText:
    """A text without some parts of the original.

    ``starts`` are the positions of its pieces, ``origins`` their positions and lengths in the original. A
    piece with another length than its original was decoded.
    """

    def __init__(self, original: bytes, parts: Iterator[tuple[int, int, bytes]]) -> None:
        """Replace parts of a text: their start, end and replacement, in order."""
        pieces: list[bytes] = []
        self.starts: list[int] = []
        self.origins: list[tuple[int, int]] = []
        self._size = at = 0
        for start, end, replacement in parts:
            self._add(pieces, original[at:start], at, start - at)
            self._add(pieces, replacement, start, end - start)
            at = end
        self._add(pieces, original[at:], at, len(original) - at)
        self.data = b"".join(pieces)

    def _add(self, pieces: list[bytes], piece: bytes, origin: int, length: int) -> None:
        if piece:
            self.starts.append(self._size)
            self.origins.append((origin, length))
            pieces.append(piece)
            self._size += len(piece)

    def original(self, span: TextSpan) -> TextSpan:
        """Return the span in the original of a span in this text that is not empty."""
        first, last = bisect_right(self.starts, span[0]) - 1, bisect_right(self.starts, span[1] - 1) - 1
        (origin, length), (end_origin, end_length) = self.origins[first], self.origins[last]
        is_copied = self._length_of(first) == length
        start = origin + (span[0] - self.starts[first] if is_copied else 0)
        is_copied = self._length_of(last) == end_length
        return start, end_origin + (span[1] - self.starts[last] if is_copied else end_length)

    def _length_of(self, piece: int) -> int:
        return (self.starts[piece + 1] if piece + 1 < len(self.starts) else self._size) - self.starts[piece]


def without_invisible(name: str) -> str:
    """Return a name without characters that have no width."""
    return name if name.isascii() else name.translate(_INVISIBLE_TABLE)


def obscured_spans(data: bytes, find: Callable[[bytes], list[TextSpan]]) -> list[TextSpan]:
    """Return the spans that ``find`` returns for this text without what may stand inside a secret."""
    found: list[TextSpan] = []
    steps: list[PlainText] = []

    def search(step: PlainText) -> None:
        steps.append(step)
        found.extend(_original(span, steps) for span in find(step.data))

    text = data
    if _INVISIBLE_SEARCH.find_matches_as_indexes(text):
        search(visible_text(text))
        text = steps[-1].data
    for _ in range(MAX_DECODINGS):
        if not _ENCODED_SEARCH.find_matches_as_indexes(text):
            break
        search(PlainText(text, _decoded(text)))
        text = steps[-1].data
    if breaks := _wrapped_words(text):
        joined = PlainText(text, iter(breaks))
        joins = joined.starts[1:]
        # Other spans are found in the text as it is.
        spans = [
            span
            for span in find(joined.data)
            if bisect_right(joins, span[0]) < bisect_right(joins, span[1] - 1)
        ]
        found += [_original(span, [*steps, joined]) for span in spans]
    return found


def _original(span: TextSpan, steps: list[PlainText]) -> TextSpan:
    """Return the span in the original of a span in the text after these steps."""
    for step in reversed(steps):
        span = step.original(span)
    return span


def visible_text(data: bytes) -> PlainText:
    """Return a text without colours and characters that have no width."""
    return PlainText(data, ((*found.span(), b"") for found in _INVISIBLE.finditer(data)))


def is_obscured(data: bytes) -> bool:
    """Return whether a text has colours, characters without a width, or line breaks."""
    has_invisible: object = _INVISIBLE_SEARCH.find_matches_as_indexes(data)
    return b"\n" in data or b"\\n" in data or bool(has_invisible)


def one_line(data: bytes, separator: bytes) -> PlainText:
    """Return a text with a separator instead of each line break and the borders of boxes around it."""
    return PlainText(data, ((*found.span(), separator) for found in _ANY_BREAK.finditer(data)))


def _decoded(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    for found in _ENCODED.finditer(data):
        text = found[0]
        if text.startswith(b"%"):
            plain = unquote_to_bytes(text)
        elif text.startswith(b"&"):
            plain = html.unescape(text.decode()).encode("utf-8", "surrogatepass")
        else:
            plain = unicodedata.normalize("NFKC", text.decode()).encode()
        yield (*found.span(), plain)


def _wrapped_words(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the line breaks inside long words that are not words of prose."""
    if not _MAY_WRAP.search(data):
        return []
    return [(*found.span(1), b"") for found in _WRAPPED.finditer(data) if _is_wrapped(data, found)]


def _is_wrapped(data: bytes, found: Any) -> bool:
    start, end = found.span(1)
    first, last = found.span()
    line_break, after = data[start:end], data[end:last]
    if after.isalpha() and (after.islower() or after.istitle()):
        return False
    is_marked = line_break[:1] in (b"=", b"\\") and line_break[1:2] in (b"\r", b"\n")
    is_in_box = (
        b"\xe2\x94" in line_break or b"\xe2\x95" in line_break or b"u25" in line_break or b"|" in line_break
    )
    if not is_marked and not is_in_box:
        line = data.rfind(b"\n", max(0, start - 400), start) + 1
        next_line = data.find(b"\n", last, last + 400)
        width = start - line
        if width < _MIN_WIDTH or (len(data) if next_line < 0 else next_line) - end > width:
            return False
    return _TO_DIGIT.match(data[first:start] + after) is not None
