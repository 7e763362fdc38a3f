"""A JSON text without its secrets, made without decoding it where that is safe.

``scan`` finds every place at which ``redaction.redact`` could change anything. Each is inside a text,
and that text is judged by the rules of ``redaction`` themselves: a name by ``secrecy_of``, any other by
``is_clean``. Only one thing is then done on the bytes: a secret field's plain value is cut out, and its
echoes with it. Whatever is less plain sends the whole document through ``redact``, at ten times the cost.
"""

import json
import re
from typing import Any

import msgspec

from viewer.providers.redaction import MARKER, is_clean, is_secret_text, looks_random, redact, secrecy_of
from viewer.providers.scanning import Findings

_MARKER = MARKER.encode()
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_PLAIN_TEXT = re.compile(rb'"([^"\\]*)"')
# Values in which no secret can be.
_PLAIN_REST = re.compile(rb"null|true|false|\{\s*\}|\[\s*\]")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+\-]*")


class _NotPlain(Exception):
    """Only the exact way can judge this document."""


def redacted_json(data: bytes, findings: Findings) -> bytes:
    """The same JSON without its secrets. Raises msgspec.DecodeError or RecursionError for no JSON."""
    if not findings.places and not findings.escapes:
        return data
    try:
        return _cut(data, findings)
    except _NotPlain:
        return msgspec.json.encode(redact(decoded(data)))


def _cut(data: bytes, findings: Findings) -> bytes:
    """The document with its plain secrets cut out. Raises _NotPlain where one is not plain."""
    _check_escapes(data, findings.escapes)
    spans: list[tuple[int, int]] = []
    # The same texts stand in a checkpoint again and again.
    clean: set[bytes] = set()
    behind = 0
    for place in findings.places:
        if place < behind:
            continue
        start = _start_of_text(data, place)
        text = _TEXT.match(data, start)
        if text is None:
            raise _NotPlain
        behind = text.end()
        colon = _COLON.match(data, behind)
        if colon is None:
            if text[0] not in clean:
                _check_text(text[0])
                clean.add(text[0])
        elif span := _secret_span(data, text[0], colon.end(), clean):
            spans.append(span)
            behind = span[1]
    return _without_spans(data, spans) if spans else data


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


def _secret_span(data: bytes, name: bytes, position: int, clean: set[bytes]) -> tuple[int, int] | None:
    """Where the plain value of a secret field stands; None for a field that keeps its value."""
    if b"\\" in name:
        raise _NotPlain
    secrecy = secrecy_of(name[1:-1].decode("utf-8", "replace"))
    if not secrecy:
        if name not in clean:
            _check_text(name)
            clean.add(name)
        return None
    if _PLAIN_REST.match(data, position):
        return None
    if _NUMBER.match(data, position) and secrecy != "hard":
        return None
    value = _PLAIN_TEXT.match(data, position)
    if value is None or not value[1].isascii():
        raise _NotPlain
    if not is_secret_text(value[1].decode(), secrecy):
        return None
    return value.span(1)


def _without_spans(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    secrets: set[bytes] = set()
    position = 0
    for start, end in spans:
        parts += (data[position:start], _MARKER)
        secrets.add(data[start:end])
        position = end
    parts.append(data[position:])
    data = b"".join(parts)
    for secret in sorted(secrets, key=len, reverse=True):
        if looks_random(secret.decode()):
            if b"/" in secret and b"\\/" in data:
                raise _NotPlain
            data = data.replace(secret, _MARKER)
    return data


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
