"""Secrets that are known: the values of a project's environment file, in each way in which texts write them.

They are kept in memory only, and looked for in one pass over a text.
"""

import base64
import html
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.marker import MARKER
from viewer.redaction.patterns import Span, compiled, merged

_MARKER = MARKER.encode()
# More than this is not searched at once, but word by word: the search itself would need too much memory.
MAX_SEARCHED_BYTES = 2 * 1024 * 1024
_WORD = compiled(r"[^\s\"'`\\,;<>()\[\]{}]{5,}")
# Base64 is looked for from so many bytes on: of fewer, too few signs are the same wherever they stand.
MIN_BASE64 = 9
# So deep are texts of JSON inside JSON looked into for a value with quotes or backslashes in it.
_ESCAPED_LEVELS = 3


class KnownSecrets:
    """A set of secrets that can be looked for. Empty ones find nothing, and are false."""

    def __init__(self, values: Iterable[str], *, every_form: bool = True) -> None:
        self._values = frozenset(value for value in values if value)
        forms = {form for value in self._values for form in (forms_of(value) if every_form else (value,))}
        encoded = {form.encode("utf-8", "surrogatepass") for form in forms}
        self._words: frozenset[bytes] = frozenset()
        self._search: BytesAhoCorasick | None = None
        if sum(map(len, encoded)) > MAX_SEARCHED_BYTES:
            self._words = frozenset(encoded)
        elif encoded:
            self._search = BytesAhoCorasick(sorted(encoded), matchkind=MatchKind.LeftmostLongest)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} known secrets>"

    def is_in(self, data: bytes) -> bool:
        """Whether any of them stands in this text."""
        return next(iter(self.spans(data)), None) is not None

    def spans(self, data: bytes) -> list[Span]:
        """Where they stand in a text, in order."""
        if self._search is not None:
            return [(start, end) for _, start, end in self._search.find_matches_as_indexes(data)]
        if self._words:
            return merged(found.span() for found in _WORD.finditer(data) if found[0] in self._words)
        return []

    def hidden_in(self, data: bytes) -> bytes:
        """The text with the marker in place of each."""
        spans = self.spans(data)
        if not spans:
            return data
        parts: list[bytes] = []
        position = 0
        for start, end in spans:
            parts += (data[position:start], _MARKER)
            position = end
        return b"".join((*parts, data[position:]))

    def is_number(self, number: float) -> bool:
        """Whether a number is one of them."""
        return bool(self._values) and str(number) in self._values


NONE_KNOWN = KnownSecrets(())


@lru_cache(maxsize=8)
def known_secrets(values: tuple[str, ...]) -> KnownSecrets:
    """These values, ready to be looked for."""
    return KnownSecrets(values) if values else NONE_KNOWN


def forms_of(value: str) -> Iterator[str]:
    """A value in each way in which texts write it: as it is, escaped, percent-encoded and in Base64."""
    yield value
    for ensure_ascii in (True, False):
        form = value
        for _ in range(_ESCAPED_LEVELS):
            form = json.dumps(form, ensure_ascii=ensure_ascii)[1:-1]
            yield form
            yield form.replace("/", "\\/")
    yield from (quote(value, safe=""), quote(value), quote_plus(value), quote(value, safe="").lower())
    yield from (html.escape(value), repr(value)[1:-1])
    data = value.encode("utf-8", "surrogatepass")
    if len(data) >= MIN_BASE64:
        for offset in range(3):
            yield from _base64_forms(data, offset)


def _base64_forms(data: bytes, offset: int) -> Iterator[str]:
    """The signs of Base64 that are the same whatever stands before and behind."""
    first = (offset * 8 + 5) // 6
    last = (offset + len(data)) * 8 // 6
    text = base64.b64encode(bytes(offset) + data).decode()[first:last]
    yield text
    yield text.replace("+", "-").replace("/", "_")
