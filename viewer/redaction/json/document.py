"""A JSON text without its secrets, made without decoding it where that is safe.

``scan`` finds every place at which ``redaction.redact`` could change anything. Each is inside a text,
and that text is judged by the rules of ``redaction`` themselves: a name by ``secrecy_of``, any other by
``is_clean``. Only one thing is then done on the bytes: a secret field's plain value is cut out, and its
echoes with it. Whatever is less plain sends the whole document through ``redact``, at ten times the cost.
"""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.json.scan import Findings
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.marker import MARKER
from viewer.redaction.names.secrecy import Secrecy, is_secret_text, secrecy_of
from viewer.redaction.names.shapes import is_distinctive
from viewer.redaction.rules.pairs import NAME_FIELDS, VALUE_FIELDS
from viewer.redaction.values import is_clean, redact

_MARKER = MARKER.encode()
# How much around a place tells one field from another.
_BEFORE, _AFTER = 20, 60
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_PLAIN_TEXT = re.compile(rb'"([^"\\]*)"')
# Values in which no secret can be.
_PLAIN_REST = re.compile(rb"null|true|false|\{\s*\}|\[\s*\]")
# What stands before a field's value: its name, and whether it is the first of its object.
_FIELD_BEFORE = re.compile(rb'([{]\s*)?"([A-Za-z_\-]{1,30})"\s*:\s*\Z')
_LIST_PAIR = re.compile(rb'\s*,\s*"[^"]*"\s*\]')
_PAIRED_VALUE = re.compile(rb'"(?i:' + "|".join(sorted(VALUE_FIELDS)).encode() + rb')"\s*:\s*[^\sntf]')
_IN_NAME = re.compile(rb'[^"\\]{0,200}"\s*:')
_WORD_SIGN = re.compile(rb"[A-Za-z0-9_\-\x80-\xff]")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+\-]*")


class _NotPlain(Exception):
    """Only the exact way can judge this document."""


def redacted_json(data: bytes, findings: Findings, known: KnownSecrets = NONE_KNOWN) -> bytes:
    """The same JSON without its secrets. Raises msgspec.DecodeError or RecursionError for no JSON."""
    is_known = bool(known) and known.is_in(data)
    if not findings.places and not findings.escapes and not is_known:
        return data
    try:
        if is_known:
            raise _NotPlain
        return _cut(data, findings)
    except _NotPlain:
        return msgspec.json.encode(redact(decoded(data), known))


def _cut(data: bytes, findings: Findings) -> bytes:
    """The document with its plain secrets cut out. Raises _NotPlain where one is not plain."""
    _check_escapes(data, findings.escapes)
    spans: list[tuple[int, int]] = []
    # The same texts and fields stand in a checkpoint again and again.
    clean: set[bytes] = set()
    behind = 0
    for place in findings.places:
        if place < behind:
            continue
        known = _judged.get(data[place - _BEFORE : place + _AFTER]) if place >= _BEFORE else None
        if known is None:
            known = _judge(data, place, clean)
            if known.is_within(_BEFORE, _AFTER) and place >= _BEFORE:
                _keep(data[place - _BEFORE : place + _AFTER], known)
        if known.secret is not None:
            spans.append((place + known.secret[0], place + known.secret[1]))
        behind = place + known.behind
    return _without_spans(data, spans) if spans else data


class _Judged(NamedTuple):
    """What was found at a place; all positions count from there.

    ``first`` and ``last`` bound what was looked at, ``behind`` is where to go on, ``secret`` what to cut.
    """

    first: int
    last: int
    behind: int
    secret: tuple[int, int] | None = None

    def is_within(self, before: int, after: int) -> bool:
        return -self.first <= before and self.last < after


# And in the next checkpoint: what was judged by nothing but the bytes around a place.
_judged: dict[bytes, _Judged] = {}
MAX_JUDGED = 2000


def _keep(around: bytes, known: _Judged) -> None:
    if len(_judged) >= MAX_JUDGED:
        _judged.clear()
    _judged[around] = known


def _judge(data: bytes, place: int, clean: set[bytes]) -> _Judged:
    """Judge the text at a place, and its value where it is a name. Raises _NotPlain."""
    start = _start_of_text(data, place)
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
        # A blank more might lead to a colon.
        last = colon.end() if colon else end + 1 if not data[end : end + 1].isspace() else end + _AFTER
        return _Judged(start - place, last - place, end - place)
    rest = _PLAIN_REST.match(data, colon.end())
    if rest or (secrecy != "hard" and (rest := _NUMBER.match(data, colon.end()))):
        return _Judged(start - place, rest.end() + 1 - place, rest.end() - place)
    value = _PLAIN_TEXT.match(data, colon.end())
    if value is None or not value[1].isascii():
        raise _NotPlain
    if is_secret_text(value[1].decode(), secrecy):
        first, last = value.span(1)
        return _Judged(start - place, last + 1 - place, last + 1 - place, (first - place, last - place))
    return _Judged(start - place, value.end() - place, end - place)


def _check_pair(data: bytes, start: int, text: bytes, end: int) -> None:
    """Raise _NotPlain where a secret's name stands as a value, and its value may stand beside it."""
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


def _start_of_text(data: bytes, place: int) -> int:
    """Where the text begins that this place is in: at the last quote before it that is not escaped."""
    start = place
    while (start := data.rfind(b'"', 0, start)) >= 0:
        slashes = 0
        while data[start - slashes - 1 : start - slashes] == b"\\":
            slashes += 1
        if not slashes % 2:
            return start
    raise _NotPlain


def _check_text(text: bytes) -> None:
    """Raise _NotPlain where the exact way would change this text."""
    try:
        value = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _NotPlain from None
    if not is_clean(value):
        raise _NotPlain


@lru_cache(maxsize=1000)
def _check_short_text(text: bytes) -> None:
    """The same for texts that come again in the next checkpoint. Only those that are clean are kept."""
    _check_text(text)


def _without_spans(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """The document without these spans, and without what stood in them wherever else it stands."""
    secrets = {data[start:end] for start, end in spans}
    echoes = frozenset(secret for secret in secrets if is_distinctive(secret.decode()))
    if any(b"/" in secret for secret in echoes) and b"\\/" in data:
        raise _NotPlain
    if echoes:
        found = [(start, end) for _, start, end in _echo_search(echoes).find_matches_as_indexes(data)]
        if found != spans:
            # Cutting one out of a longer word can leave a word that is a secret by itself.
            if any(_is_in_word(data, start, end) for start, end in found):
                raise _NotPlain
            # Two names that become one would hide a field.
            if any(_IN_NAME.match(data, end) for _, end in found):
                raise _NotPlain
            plain = [span for span in spans if data[span[0] : span[1]] not in echoes]
            spans = sorted(found + plain) if plain else found
    # Views, not copies: pieces of tens of kilobytes make the allocator ask the system again and again.
    whole = memoryview(data)
    parts: list[bytes | memoryview] = []
    position = 0
    for start, end in spans:
        # A short secret may stand inside a longer one.
        if start >= position:
            parts += (whole[position:start], _MARKER)
            position = end
    parts.append(whole[position:])
    return b"".join(parts)


def _is_in_word(data: bytes, start: int, end: int) -> bool:
    return _WORD_SIGN.match(data, start - 1) is not None or _WORD_SIGN.match(data, end) is not None


@lru_cache(maxsize=4)
def _echo_search(secrets: frozenset[bytes]) -> BytesAhoCorasick:
    return BytesAhoCorasick(sorted(secrets), matchkind=MatchKind.LeftmostLongest)


def _check_escapes(data: bytes, escapes: list[int]) -> None:
    """Raise _NotPlain for escapes that could hide a letter of a secret, or that are half a pair."""
    behind = -1
    for start in escapes:
        if start < behind:
            continue
        escape = data[start : start + 12].lower()
        if data[start - 1 : start] == b"\\":
            raise _NotPlain
        if escape[2:3] == b"0":
            if escape[4:5] in (b"2", b"3", b"4", b"5", b"6", b"7"):
                raise _NotPlain
            continue
        is_pair = escape[3:4] in b"89ab" and escape[6:9] == b"\\ud" and escape[9:10] in b"cdef"
        if len(escape) < 12 or not is_pair:
            raise _NotPlain
        behind = start + 12


def decoded(body: bytes) -> Any:
    """A JSON text as values. What no number can hold comes as text. Raises ValueError or RecursionError."""
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        return json.loads(body, parse_int=_number_or_text, parse_float=_float_or_text, parse_constant=str)


def _number_or_text(text: str) -> int | str:
    return int(text) if len(text) < 4000 else text


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return text if number in (float("inf"), float("-inf")) else number
