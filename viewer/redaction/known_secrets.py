"""Redacts texts: known secrets, and everything that looks like one."""

import base64
import html
import json
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER
from viewer.redaction.credentials import credential_spans, private_key_spans, url_spans
from viewer.redaction.keywords import may_hold_secret
from viewer.redaction.named_values import named_spans
from viewer.redaction.obscured import is_obscured, obscured_spans, one_line, visible_text
from viewer.redaction.pairs import pair_spans
from viewer.redaction.patterns import TextSpan, anchored, compiled, merged, without_spans
from viewer.redaction.vendor_tokens import token_spans

# Known secrets: the values of a project's environment file, in every form in which a text may contain them.
#
# They are kept in memory only. A text is compared in lower case, as it is and without colours, characters
# that have no width, and line breaks: a terminal wraps the lines of a box in the middle of a word.


# Beyond this size, texts are compared word by word: one search for all forms would need too much memory.
MAX_SEARCHED_BYTES = 2 * 1024 * 1024
_WORD = compiled(r"[^\s\"'`\\,;<>()\[\]{}]{5,}")
# The shortest value, in bytes, whose Base64 forms are searched: fewer of a shorter one's characters are the
# same in every text.
MIN_BASE64 = 9
# Levels of JSON inside JSON at which a value with quotes or backslashes is found.
_ESCAPED_LEVELS = 3


class KnownSecrets:
    """A set of secrets to be found in texts. An empty set is false.

    Without ``every_form``, only the values themselves are found, letter by letter.
    """

    def __init__(self, values: Iterable[str], *, every_form: bool = True) -> None:
        self._values = frozenset(value for value in values if value)
        self._every_form = every_form
        forms = {form for value in self._values for form in (forms_of(value) if every_form else (value,))}
        encoded = {form.encode("utf-8", "surrogatepass") for form in forms}
        if every_form:
            encoded = {form.lower() for form in encoded}
        self._has_blanks = any(b" " in form for form in encoded)
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
        """Return whether this text contains any of the secrets."""
        return next(iter(self.spans(data)), None) is not None

    def spans(self, data: bytes) -> list[TextSpan]:
        """Return the spans of the secrets in a text, in order."""
        if not self._every_form:
            return self._exact_spans(data)
        if not self._values:
            return []
        lowered = data.lower()
        spans = self._exact_spans(lowered)
        if not is_obscured(lowered):
            return spans
        visible = visible_text(lowered)
        spans += [visible.original(span) for span in self._exact_spans(visible.data)]
        for separator in (b"", b" ") if self._has_blanks else (b"",):
            line = one_line(visible.data, separator)
            spans += [visible.original(line.original(span)) for span in self._exact_spans(line.data)]
        return merged(spans)

    def _exact_spans(self, data: bytes) -> list[TextSpan]:
        if self._search is not None:
            return [(start, end) for _, start, end in self._search.find_matches_as_indexes(data)]
        if self._words:
            return merged(found.span() for found in _WORD.finditer(data) if found[0] in self._words)
        return []

    def redacted_in(self, data: bytes) -> bytes:
        """Return the text without the secrets; the same object if it contains none."""
        spans = self.spans(data)
        return without_spans(data, spans) if spans else data

    def is_number(self, number: float) -> bool:
        """Return whether a number is one of the secrets."""
        return bool(self._values) and str(number) in self._values


NONE_KNOWN = KnownSecrets(())


@lru_cache(maxsize=8)
def known_secrets(values: tuple[str, ...]) -> KnownSecrets:
    """Return the known secrets with these values."""
    return KnownSecrets(values) if values else NONE_KNOWN


def forms_of(value: str) -> Iterator[str]:
    """Yield the forms of a value in texts: unchanged, escaped, percent-encoded and in Base64, in any case."""
    yield value
    if not value.isascii():
        # Of bytes, only the letters of ASCII are compared in lower case.
        yield from (value.lower(), value.upper())
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
    """Yield the Base64 characters that are the same whatever precedes and follows the value."""
    first = (offset * 8 + 5) // 6
    last = (offset + len(data)) * 8 // 6
    text = base64.b64encode(bytes(offset) + data).decode()[first:last]
    yield text
    yield text.replace("+", "-").replace("/", "_")


# Redact texts. Each rule yields the spans of what it finds, which are then replaced together.


_MARKER = MARKER.encode()
# A text without any sign or blank, in which only a token can be found.
_WORD_BEFORE = anchored(r"[A-Za-z0-9_\-]*+$")
# The shortest text in which a rule can find anything.
MIN_BYTES = 6


def spans_in(data: bytes) -> list[TextSpan]:
    """Return the spans of the secrets in a UTF-8 text, in order."""
    if not may_hold_secret(data):
        return []
    if _WORD_BEFORE.match(data):
        spans = list(token_spans(data))
    else:
        spans = [*_found_in(data), *obscured_spans(data, _found_in)]
    return merged(span for span in spans if _MARKER not in data[span[0] : span[1]]) if spans else spans


def _found_in(data: bytes) -> list[TextSpan]:
    """Return the spans that the rules find, in any order."""
    return [
        *token_spans(data),
        *private_key_spans(data),
        *url_spans(data),
        *credential_spans(data),
        *named_spans(data),
        *pair_spans(data),
    ]


def redact_text(text: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the text without known secrets and without anything that is recognised as a secret."""
    if len(text) < MIN_BYTES and not known:
        return text
    data = text.encode("utf-8", "surrogatepass")
    clean = known.redacted_in(data)
    if spans := spans_in(clean):
        clean = without_spans(clean, spans)
    return text if clean == data else clean.decode("utf-8", "surrogatepass")


def redacted_name(name: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the redacted name of a file or row. Different names stay different."""
    redacted = redact_text(name, known)
    return name if redacted == name else f"{redacted} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
