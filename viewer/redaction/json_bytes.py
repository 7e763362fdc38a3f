"""Redact JSON bytes, without decoding all of them if that is safe."""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER
from viewer.redaction.keywords import KeywordSearch, keywords
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.names import Secrecy, is_secret_text, secrecy_of
from viewer.redaction.obscured import INVISIBLE
from viewer.redaction.pairs import NAME_FIELDS, VALUE_FIELDS
from viewer.redaction.patterns import is_distinctive
from viewer.redaction.values import is_clean, redact

# Scan a JSON text for every position at which redaction could change anything.
#
# A checkpoint repeats its agents and events dozens of times. Decoding all of it, only to find that nothing is
# secret, would take most of an import. So a few passes find the keywords without which no rule matches.


@dataclass(slots=True)
class ScanResult:
    """Positions of keywords and of escapes, in order.

    ``has_deep_nesting`` if brackets close many levels at once.
    """

    positions: list[int]
    escapes: list[int]
    has_deep_nesting: bool


_ESCAPES = ["\\u0", "\\ud", "\\uD"]
_NESTS = ["}" * 8, "]" * 8, "}]" * 4, "]}" * 4]
_BACKSLASH, _U = b"\\u"
_SPECIAL = b"\\]}"
_QUOTE = ord('"')
_SEARCH = KeywordSearch([*keywords(), *_ESCAPES, *_NESTS])


def scan(data: bytes) -> ScanResult:
    """Return the positions in a JSON text at which redaction could change anything."""
    # A quote at which a keyword begins is not part of the text that it opens.
    positions = sorted(at + (data[at] == _QUOTE) for at in _SEARCH.positions(data))
    special = [at for at in positions if data[at] in _SPECIAL]
    escapes = [at for at in special if data[at] == _BACKSLASH and data[at + 1] == _U]
    nests = [at for at in special if data[at] != _BACKSLASH]
    if escapes or nests:
        dropped = {*escapes, *nests}
        positions = [at for at in positions if at not in dropped]
    return ScanResult(positions, escapes, has_deep_nesting=bool(nests))


# Redact JSON bytes, without decoding all of them if that is safe.
#
# ``scan`` finds every position at which ``values.redact`` could change anything. The string at each
# position is examined by the same rules: a name by ``secrecy_of``, any other string by ``is_clean``. Only
# one change is made to the bytes: the plain value of a secret field is replaced, and so is every
# repetition of it. Anything less plain sends the whole document through ``redact``, at ten times the
# cost.


_MARKER = MARKER.encode()
# Bytes around a position that identify a field.
_BEFORE, _AFTER = 20, 60
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_PLAIN_TEXT = re.compile(rb'"([^"\\]*)"')
# Values that cannot contain a secret.
_PLAIN_REST = re.compile(rb"null|true|false|\{\s*\}|\[\s*\]")
# What precedes a field's value: its name, and whether it is the first of its object.
_FIELD_BEFORE = re.compile(rb'([{]\s*)?"([A-Za-z_\-]{1,30})"\s*:\s*\Z')
_LIST_PAIR = re.compile(rb'\s*,\s*"[^"]*"\s*\]')
_PAIRED_VALUE = re.compile(rb'"(?i:' + "|".join(sorted(VALUE_FIELDS)).encode() + rb')"\s*:\s*[^\sntf]')
_REST_OF_NAME = re.compile(rb'[^"\\]{0,200}"\s*:')
_WORD_CHARACTER = re.compile(rb"[A-Za-z0-9_\-\x80-\xff]")
_INVISIBLE_ESCAPES = frozenset(f"{ord(one):04x}".encode() for one in INVISIBLE)
_SIGNATURE = b'"signature"'
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+\-]*")


class _NotPlain(Exception):
    """The document has to be decoded."""


def redacted_json(data: bytes, findings: ScanResult, known: KnownSecrets = NONE_KNOWN) -> bytes:
    """Return the redacted JSON. Raises msgspec.DecodeError or RecursionError for anything else."""
    has_known = bool(known) and known.is_in(data)
    if not findings.positions and not findings.escapes and not has_known:
        return data
    try:
        if has_known:
            raise _NotPlain
        return _redact_plain(data, findings)
    except _NotPlain:
        return msgspec.json.encode(redact(decoded(data), known))


def _redact_plain(data: bytes, findings: ScanResult) -> bytes:
    """Return the document with its plain secrets replaced. Raises _NotPlain if one is not plain."""
    _check_escapes(data, findings.escapes)
    spans: list[tuple[int, int]] = []
    # Strings without a secret. A checkpoint repeats its strings and fields.
    clean: set[bytes] = set()
    end = 0
    for position in findings.positions:
        if position < end:
            continue
        around = data[position - _BEFORE : position + _AFTER] if position >= _BEFORE else b""
        verdict = _verdicts.get(around) if around else None
        if verdict is None:
            verdict = _examine(data, position, clean)
            if around and verdict.is_within(_BEFORE, _AFTER):
                _remember(around, verdict)
        if verdict.secret is not None:
            spans.append((position + verdict.secret[0], position + verdict.secret[1]))
        end = position + verdict.end
    return _replace(data, spans) if spans else data


class _Verdict(NamedTuple):
    """The match at a position. All offsets are relative to it.

    ``first`` and ``last`` bound the bytes that were examined. ``end`` is where to continue. ``secret`` is the
    span to be replaced.
    """

    first: int
    last: int
    end: int
    secret: tuple[int, int] | None = None

    def is_within(self, before: int, after: int) -> bool:
        return -self.first <= before and self.last < after


# Verdicts that depend only on the bytes around a position, for the next checkpoint.
_verdicts: dict[bytes, _Verdict] = {}
MAX_VERDICTS = 2000


def _remember(around: bytes, verdict: _Verdict) -> None:
    if len(_verdicts) >= MAX_VERDICTS:
        _verdicts.clear()
    _verdicts[around] = verdict


def _examine(data: bytes, position: int, clean: set[bytes]) -> _Verdict:
    """Return the verdict on the string at a position, and on its value if it is a name. Raises _NotPlain."""
    start = _start_of_text(data, position)
    text = _TEXT.match(data, start)
    if text is None:
        raise _NotPlain
    end = text.end()
    colon = _COLON.match(data, end)
    secrecy = _secrecy(text[0]) if colon else ""
    if colon is None or not secrecy:
        if colon is None:
            _check_pair(data, start, text[0], end)
        if text[0] not in clean:
            check = _check_text if len(text[0]) > 200 else _check_short_text
            check(text[0])
            clean.add(text[0])
        # More white space could lead to a colon.
        last = colon.end() if colon else end + 1 if not data[end : end + 1].isspace() else end + _AFTER
        return _Verdict(start - position, last - position, end - position)
    rest = _PLAIN_REST.match(data, colon.end())
    if rest or (secrecy not in ("hard", "code") and (rest := _NUMBER.match(data, colon.end()))):
        return _Verdict(start - position, rest.end() + 1 - position, rest.end() - position)
    value = _PLAIN_TEXT.match(data, colon.end())
    if value is None or not value[1].isascii():
        raise _NotPlain
    if is_secret_text(value[1].decode(), secrecy):
        if text[0] == _SIGNATURE:
            # It may be that of a thought, which its neighbours tell.
            raise _NotPlain
        first, last = value.span(1)
        return _Verdict(
            start - position, last + 1 - position, last + 1 - position, (first - position, last - position)
        )
    return _Verdict(start - position, value.end() - position, end - position)


def _check_pair(data: bytes, start: int, text: bytes, end: int) -> None:
    """Raise _NotPlain if a secret's name is a value, and a neighbouring field may hold the secret."""
    if len(text) > 200 or b"\\" in text or not secrecy_of(text[1:-1].decode("utf-8", "replace")):
        return
    field = _FIELD_BEFORE.search(data[max(0, start - 60) : start])
    if field is None:
        if _LIST_PAIR.match(data, end):
            raise _NotPlain
    elif field[2].decode("utf-8", "replace").lower() in NAME_FIELDS:
        rest = data[end : data.find(b"}", end, end + 2000)]
        if (
            not field[1]
            or rest.count(b'"') % 2
            or b"{" in rest
            or len(rest) > 1990
            or _PAIRED_VALUE.search(rest)
        ):
            raise _NotPlain


def _secrecy(name: bytes) -> Secrecy:
    if b"\\" in name:
        raise _NotPlain
    return secrecy_of(name[1:-1].decode("utf-8", "replace"))


def _start_of_text(data: bytes, position: int) -> int:
    """Return the start of the string at a position: the last quote before it that is not escaped."""
    start = position
    while (start := data.rfind(b'"', 0, start)) >= 0:
        slashes = 0
        while data[start - slashes - 1 : start - slashes] == b"\\":
            slashes += 1
        if not slashes % 2:
            return start
    raise _NotPlain


def _check_text(text: bytes) -> None:
    """Raise _NotPlain if ``redact`` would change this text."""
    try:
        value = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _NotPlain from None
    if not is_clean(value):
        raise _NotPlain


@lru_cache(maxsize=1000)
def _check_short_text(text: bytes) -> None:
    """Raise _NotPlain as ``_check_text`` does. Clean texts are cached: the next checkpoint repeats them."""
    _check_text(text)


def _replace(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return the document with the marker in place of these spans and of repetitions of their contents."""
    secrets = {data[start:end] for start, end in spans}
    repeated = frozenset(secret for secret in secrets if is_distinctive(secret.decode()))
    if any(b"/" in secret for secret in repeated) and b"\\/" in data:
        raise _NotPlain
    if repeated:
        found = [(start, end) for _, start, end in _repetitions(repeated).find_matches_as_indexes(data)]
        if found != spans:
            # Replacing a part of a longer word can leave a word that is a secret.
            if any(_is_in_word(data, start, end) for start, end in found):
                raise _NotPlain
            # If two names became one, a field would be lost.
            if any(_REST_OF_NAME.match(data, end) for _, end in found):
                raise _NotPlain
            plain = [span for span in spans if data[span[0] : span[1]] not in repeated]
            spans = sorted(found + plain) if plain else found
    # Views instead of copies: the allocator returns pieces of tens of kilobytes to the system each time.
    whole = memoryview(data)
    parts: list[bytes | memoryview] = []
    position = 0
    for start, end in spans:
        # A short secret may be part of a longer one.
        if start >= position:
            parts += (whole[position:start], _MARKER)
            position = end
    parts.append(whole[position:])
    return b"".join(parts)


def _is_in_word(data: bytes, start: int, end: int) -> bool:
    return _WORD_CHARACTER.match(data, start - 1) is not None or _WORD_CHARACTER.match(data, end) is not None


@lru_cache(maxsize=4)
def _repetitions(secrets: frozenset[bytes]) -> BytesAhoCorasick:
    return BytesAhoCorasick(sorted(secrets), matchkind=MatchKind.LeftmostLongest)


def _check_escapes(data: bytes, escapes: list[int]) -> None:
    """Raise _NotPlain for escapes that could hide a character of a secret, or that are half a pair."""
    end = -1
    for start in escapes:
        if start < end:
            continue
        escape = data[start : start + 12].lower()
        if data[start - 1 : start] == b"\\":
            raise _NotPlain
        if escape[2:3] == b"0":
            if escape[4:5] in (b"2", b"3", b"4", b"5", b"6", b"7") or escape[2:6] in _INVISIBLE_ESCAPES:
                raise _NotPlain
            continue
        is_pair = escape[3:4] in b"89ab" and escape[6:9] == b"\\ud" and escape[9:10] in b"cdef"
        if len(escape) < 12 or not is_pair:
            raise _NotPlain
        end = start + 12


def decoded(body: bytes) -> Any:
    """Return the decoded JSON, with texts for numbers that overflow. Raises ValueError or RecursionError."""
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        return json.loads(body, parse_int=_number_or_text, parse_float=_float_or_text, parse_constant=str)


def _number_or_text(text: str) -> int | str:
    return int(text) if len(text) < 4000 else text


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return text if number in (float("inf"), float("-inf")) else number
