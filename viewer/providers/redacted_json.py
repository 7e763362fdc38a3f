"""A JSON text without its secrets, made without decoding it where that can be avoided.

What ``scan`` finds is judged in place. A secret that stands there as a plain text is cut out of the
bytes; anything less plain (escapes, nested values, JSON in a text) sends the whole document through
``redaction.redact``, which knows everything and costs ten times as much. Both give the same values.
"""

import json
import re
from typing import Any

import msgspec

from viewer.providers.redaction import (
    MARKER,
    TOKENS,
    Secrecy,
    assigns_secret,
    looks_random,
    redact,
    secrecy_of,
)
from viewer.providers.scanning import Findings, Place

_MARKER = MARKER.encode()
# How far around a place one looks for the name and the value that it is part of.
_BEFORE, _AFTER = 120, 600
_TOKEN = re.compile(TOKENS.encode())
_NAME_START = re.compile(rb"[A-Za-z0-9_\-. $]*\Z")
_NAME_END = re.compile(rb"[A-Za-z0-9_\-.]*")
_PLAIN_VALUE = re.compile(
    rb'\s*:\s*(?:"(?P<text>[^"\\]*)"|(?P<number>-?[0-9][0-9.eE+\-]*)|null|true|false|\{\s*\}|\[\s*\])'
)
_COLON = re.compile(rb"\s*:")
_PASSWORD_IN_ADDRESS = re.compile(rb"/?[^\s/@:\"'<>]*:[^\s/\"'<>]+@")
_BEARER_TOKEN = re.compile(rb"\s*[^\s\"'\\]{10}")


class _NotPlain(Exception):
    """Only the exact way can judge this text."""


def redacted_json(data: bytes, findings: Findings) -> bytes:
    """The same JSON without its secrets. Raises msgspec.DecodeError or RecursionError for no JSON."""
    try:
        return _cut(data, findings)
    except _NotPlain:
        return _exactly(data)


def _exactly(data: bytes) -> bytes:
    return msgspec.json.encode(redact(decoded(data)))


def _cut(data: bytes, findings: Findings) -> bytes:
    """The text with its plain secrets cut out. Raises _NotPlain where one is not plain."""
    _check_escapes(data, findings.escapes)
    spans, secrets = _spans_of_names(data, findings.names)
    for place in findings.odd:
        _check_odd(data, place)
    taken = iter(sorted((start, end) for start, (end, _) in spans.items()))
    start, end = next(taken, (len(data), len(data)))
    for place in findings.tokens:
        while end < place.start:
            start, end = next(taken, (len(data), len(data)))
        if place.start >= start:
            continue
        match = _TOKEN.match(data, place.start) or _TOKEN.search(
            data, max(0, place.start - 4), place.end + _AFTER
        )
        if match:
            spans[match.start()] = match.end(), _MARKER
    if spans:
        data = _replaced(data, spans)
        for secret in sorted(secrets, key=len, reverse=True):
            data = data.replace(secret, _MARKER)
    return data


def _spans_of_names(data: bytes, names: list[Place]) -> tuple[dict[int, tuple[int, bytes]], set[bytes]]:
    """The plain values of secret fields: start -> (end, what takes its place), and their texts."""
    spans: dict[int, tuple[int, bytes]] = {}
    secrets: set[bytes] = set()
    # The same field with the same value stands in a checkpoint again and again.
    met: dict[bytes, tuple[int, int, bytes]] = {}
    behind = 0
    for place in names:
        if place.start < behind:
            continue
        around = data[max(0, place.start - 16) : place.end + 64]
        if around in met:
            first, last, replacement = met[around]
            behind = place.start + last
            spans[place.start + first] = behind, replacement
            continue
        span = _secret_value(data, place)
        if span is None:
            continue
        start, behind, replacement = span
        spans[start] = behind, replacement
        text = data[start:behind]
        if looks_random(text.decode()):
            secrets.add(text)
        if behind < place.end + 64 and data.rfind(b'"', max(0, place.start - 16), place.start) >= 0:
            met[around] = (start - place.start, behind - place.start, replacement)
    return spans, secrets


def _replaced(data: bytes, spans: dict[int, tuple[int, bytes]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for start in sorted(spans):
        end, replacement = spans[start]
        if start >= position:
            parts += (data[position:start], replacement)
            position = end
    parts.append(data[position:])
    return b"".join(parts)


def _secret_value(data: bytes, place: Place) -> tuple[int, int, bytes] | None:
    """Where the plain value of the secret field stands that this place names, and what takes its place."""
    end = _name_end(data, place)
    if data[end : end + 1] != b'"':
        _check_assignment(data, place)
        return None
    before = _NAME_START.search(data[max(0, place.start - _BEFORE) : place.start])
    start = place.start - len(before[0]) if before else place.start
    if data[start - 1 : start] != b'"' or data[start - 2 : start - 1] == b"\\":
        # Not a whole name: the end of a text, or a name with signs that names seldom hold.
        if _COLON.match(data, end + 1):
            raise _NotPlain
        _check_assignment(data, place)
        return None
    secrecy = secrecy_of(data[start:end].decode("ascii", "replace"))
    if not secrecy or not _COLON.match(data, end + 1):
        return None
    return _plain_span(data, end + 1, secrecy)


def _name_end(data: bytes, place: Place) -> int:
    match = _NAME_END.match(data, place.end - 1)
    return match.end() if match else place.end


def _plain_span(data: bytes, colon: int, secrecy: Secrecy) -> tuple[int, int, bytes] | None:
    value = _PLAIN_VALUE.match(data, colon)
    if value is None:
        raise _NotPlain
    if value["number"] is not None and secrecy == "hard":
        return value.start("number"), value.end("number"), b'"%s"' % _MARKER
    text = value["text"]
    if not text or text == _MARKER:
        return None
    if not text.isascii():
        raise _NotPlain
    if secrecy == "random" and not (len(text) >= 16 and b" " not in text and looks_random(text.decode())):
        return None
    return value.start("text"), value.end("text"), _MARKER


def _check_assignment(data: bytes, place: Place) -> None:
    """Raise _NotPlain where the place is in the name of something like ``api_key=value`` in a text."""
    first = max(0, place.start - _BEFORE)
    # Every sign stays one sign, so that positions hold.
    around = data[first : place.end + _AFTER].decode("latin-1")
    if assigns_secret(around, place.start - first) or (
        b"\\" in data[place.start : place.end + _AFTER]
        and assigns_secret(around.replace("\\", " "), place.start - first)
    ):
        raise _NotPlain


def _check_odd(data: bytes, place: Place) -> None:
    """Raise _NotPlain where a password in an address, a bearer's token or a private key begins."""
    found = data[place.start : place.end]
    if b"/" in found:
        if _PASSWORD_IN_ADDRESS.match(data, place.end):
            raise _NotPlain
    elif found in (b"earer ", b"EARER "):
        if _BEARER_TOKEN.match(data, place.end):
            raise _NotPlain
    else:
        raise _NotPlain


def _check_escapes(data: bytes, escapes: list[Place]) -> None:
    """Raise _NotPlain for escapes that could hide a secret, or that are half a pair."""
    skip_until = -1
    for start, end in escapes:
        if start < skip_until:
            continue
        if data[end - 1 : end] == b"0":
            if data[end : end + 1] in (b"2", b"3", b"4", b"5", b"6", b"7"):
                raise _NotPlain
            continue
        pair = data[start : start + 12].lower()
        whole = len(pair) == 12 and pair[3:4] in b"89ab" and pair[6:8] == b"\\u" and pair[8:9] == b"d"
        if not whole or pair[9:10] not in b"cdef" or data[start - 1 : start] == b"\\":
            raise _NotPlain
        skip_until = start + 12


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
