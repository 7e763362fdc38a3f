"""Redact decoded JSON values, and JSON inside texts, before anything is stored, sent or logged."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

from viewer.redaction import MARKER, hidden
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets, redact_text
from viewer.redaction.names import Secrecy, is_secret_number, is_secret_text, secrecy_below, secrecy_of
from viewer.redaction.pairs import NAME_FIELDS, VALUE_FIELDS, is_paired_secret
from viewer.redaction.patterns import compiled, is_distinctive, is_ordinary, looks_random

# JSON inside a text: decoded, and written again with only what was redacted changed.


# Levels of JSON inside JSON that are decoded. What is deeper is redacted as a text.
MAX_NESTING = 12
_SCALAR = compiled(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+\-]*|true|false|null|NaN|-?Infinity')


def json_inside(text: str) -> Any:
    """Return the object or list if the text is JSON of one; else None."""
    if len(text) < 8 or text[:100].lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def rewritten(text: str, before: Any, after: Any) -> str:
    """Return the JSON text of ``after``, in which only what differs from ``before`` is written again."""
    old, new = list(_scalars(before)), list(_scalars(after))
    data = text.encode("utf-8", "surrogatepass")
    spans = [found.span() for found in _SCALAR.finditer(data)]
    if not len(old) == len(new) == len(spans):
        # A name occurs twice, or two names have become one.
        return json.dumps(after)
    parts: list[bytes] = []
    position = 0
    for (start, end), was, now in zip(spans, old, new, strict=True):
        if was is not now and was != now:
            is_ascii = data[start:end].isascii()
            written = json.dumps(now, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            parts += (data[position:start], written)
            position = end
    return b"".join((*parts, data[position:])).decode("utf-8", "surrogatepass")


def _scalars(value: Any) -> Iterator[Any]:
    """Yield every name and scalar, in the order in which they are written."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for name, inner in reversed(item.items()):
                pending += (inner, _Name(name))
        elif isinstance(item, list):
            pending += reversed(item)
        else:
            yield str(item) if isinstance(item, _Name) else item


class _Name(str):
    """The name of a field, to distinguish it from a value."""


# Redact decoded JSON values, before anything is stored, sent or logged.
#
# Redacted are the values of fields that are named like keys, tokens and passwords; texts that are
# recognised as secrets; known secrets; and the values of such fields wherever else they occur in the same
# value.
#
# A redacted text becomes the marker. A number is redacted if its field is named like a password or a code, or
# if it is a known secret; other numbers are counters. Booleans and null are never redacted.


def redact(value: Any, known: KnownSecrets = NONE_KNOWN) -> Any:
    """Return a copy of a decoded JSON value without its secrets."""
    found = secrets_in(value)
    repeated = KnownSecrets(found, every_form=False) if found else NONE_KNOWN
    return _redacted(value, _TextRedactor(repeated, known), 0)


def is_clean(text: str) -> bool:
    """Return whether redaction leaves this text unchanged."""
    return bool(redact(text) == text)


class _TextRedactor:
    """Redacts the texts of one value: known secrets, and secrets of its fields that other texts repeat."""

    def __init__(self, repeated: KnownSecrets, known: KnownSecrets) -> None:
        self.repeated, self.known = repeated, known

    def redacted(self, text: str) -> str:
        if self.repeated or self.known:
            data = text.encode("utf-8", "surrogatepass")
            clean = self.repeated.redacted_in(self.known.redacted_in(data))
            if clean is not data:
                text = clean.decode("utf-8", "surrogatepass")
        return redact_text(text)


def secrets_in(value: Any) -> set[str]:
    """Return the values of secret fields that are distinctive enough to be searched in other texts."""
    found: set[str] = set()
    pending: list[tuple[Any, Secrecy, int]] = [(value, "", 0)]
    while pending:
        item, secrecy, depth = pending.pop()
        if isinstance(item, dict):
            pending += [(inner, inner_secrecy, depth) for _, inner, inner_secrecy in _fields(item, secrecy)]
        elif isinstance(item, list):
            pending += [(inner, inner_secrecy, depth) for inner, inner_secrecy in _items(item, secrecy)]
        elif isinstance(item, str):
            if secrecy and is_secret_text(item, secrecy):
                found |= {item} if is_distinctive(item) else set()
            elif depth < MAX_NESTING and (inner := json_inside(item)) is not None:
                pending.append((inner, secrecy, depth + 1))
    return found


def _fields(item: dict[str, Any], secrecy: Secrecy) -> list[tuple[str, Any, Secrecy]]:
    """Return the fields of an object: name, value and secrecy."""
    if secrecy and _is_schema(item):
        return [(name, inner, secrecy if name in _SCHEMA_VALUES else "") for name, inner in item.items()]
    named = _paired(item)
    # A model signs what it thought. Without the signature, the thought cannot be sent again.
    harmless = SIGNED if not SIGNED_WITH.isdisjoint(item) else ()
    return [
        (
            name,
            inner,
            ("" if name in harmless else secrecy_below(name, secrecy))
            or (named if name.lower() in VALUE_FIELDS else ""),
        )
        for name, inner in item.items()
    ]


SIGNED, SIGNED_WITH = ("signature",), frozenset(["thinking", "redacted_thinking", "reasoning"])


_SCHEMA_VALUES = frozenset(["default", "const", "example", "examples", "enum", "value"])
_SCHEMA_SIGNS = frozenset(
    [
        "description",
        "title",
        "anyOf",
        "allOf",
        "oneOf",
        "properties",
        "format",
        "default",
        "$ref",
        "writeOnly",
    ]
)


def _is_schema(item: dict[str, Any]) -> bool:
    """Return whether an object describes a field, as a JSON schema does, instead of holding its value."""
    return ("type" in item or "anyOf" in item) and not _SCHEMA_SIGNS.isdisjoint(item)


def _paired(item: dict[str, Any]) -> Secrecy:
    """Return the secrecy of the value in an object such as {"name": …, "value": …}."""
    if len(item) < 2:
        return ""
    for name, inner in item.items():
        if isinstance(inner, str) and name.lower() in NAME_FIELDS and (secrecy := secrecy_of(inner)):
            value = next((item[other] for other in item if other.lower() in VALUE_FIELDS), None)
            is_secret = not isinstance(value, str) or is_paired_secret(value, secrecy)
            return secrecy if is_secret else ""
    return ""


def _items(item: list[Any], secrecy: Secrecy) -> list[tuple[Any, Secrecy]]:
    """Return the items of a list with their secrecy. A list may be a pair of a name and a value."""
    if not secrecy and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str):
        named = secrecy_of(item[0])
        if named and looks_random(item[1]) and not is_ordinary(item[1]):
            return [(item[0], ""), (item[1], named)]
    return [(inner, secrecy) for inner in item]


def _redacted(value: Any, texts: _TextRedactor, depth: int, secrecy: Secrecy = "") -> Any:
    """Return a field's value, redacted by the field's secrecy. ``depth``: levels of JSON inside texts."""
    if isinstance(value, str):
        if secrecy and is_secret_text(value, secrecy):
            hidden.add(1)
            return MARKER
        return _redacted_text(value, texts, depth, secrecy)
    if isinstance(value, list):
        return [
            _redacted(inner, texts, depth, inner_secrecy) for inner, inner_secrecy in _items(value, secrecy)
        ]
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for name, inner, inner_secrecy in _fields(value, secrecy):
            clean_name = _redacted_text(name, texts, MAX_NESTING, "")
            if clean_name != name and clean_name in result:
                clean_name = f"{clean_name} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
            result[clean_name] = _redacted(inner, texts, depth, inner_secrecy)
        return result
    if isinstance(value, bool) or value is None:
        return value
    if is_secret_number(value, secrecy) or texts.known.is_number(value):
        hidden.add(1)
        return MARKER
    return value


def _redacted_text(text: str, texts: _TextRedactor, depth: int, secrecy: Secrecy) -> str:
    inner = json_inside(text) if depth < MAX_NESTING else None
    if inner is None:
        return texts.redacted(text)
    clean = _redacted(inner, texts, depth + 1, secrecy)
    return text if clean == inner else rewritten(text, inner, clean)
