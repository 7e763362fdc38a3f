"""Takes secrets out of values, before anything is stored, sent or logged.

What goes: values of fields named like keys, tokens and passwords; texts that look like secrets, wherever
they stand; known secrets; and what was found under such fields, wherever else it appears in the same value.

Every hidden text becomes the marker. A number becomes the marker too under a name like “password”, and
where it is a known secret; elsewhere numbers stay, as they are counters. Booleans and null always stay.
"""

import zlib
from typing import Any

from viewer.redaction.json.nested import MAX_NESTING, json_inside, rewritten
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.marker import MARKER
from viewer.redaction.names.secrecy import HARMLESS_HEADERS, Secrecy, is_secret_text, secrecy_of
from viewer.redaction.names.shapes import is_distinctive, is_ordinary, looks_random
from viewer.redaction.rules.pairs import NAME_FIELDS, VALUE_FIELDS, is_paired_secret
from viewer.redaction.texts import redact_text


def redact(value: Any, known: KnownSecrets = NONE_KNOWN) -> Any:
    """A copy of a decoded JSON value without its secrets."""
    found = secrets_in(value)
    echoes = KnownSecrets(found, every_form=False) if found else NONE_KNOWN
    return _without(value, _Judge(echoes, known), 0)


def is_clean(text: str, known: KnownSecrets = NONE_KNOWN) -> bool:
    """Whether redacting leaves this text as it is."""
    return bool(redact(text, known) == text)


class _Judge:
    """What is looked for in the texts of one value: what was found under its names, and what is known."""

    def __init__(self, echoes: KnownSecrets, known: KnownSecrets) -> None:
        self.echoes, self.known = echoes, known

    def without(self, text: str) -> str:
        if self.echoes or self.known:
            data = text.encode("utf-8", "surrogatepass")
            hidden = self.echoes.hidden_in(self.known.hidden_in(data))
            if hidden is not data:
                text = hidden.decode("utf-8", "surrogatepass")
        return redact_text(text)


def secrets_in(value: Any) -> set[str]:
    """The texts under secret-named fields that are telling enough to be looked for elsewhere."""
    found: set[str] = set()
    waiting: list[tuple[Any, Secrecy, int]] = [(value, "", 0)]
    while waiting:
        item, secrecy, depth = waiting.pop()
        if isinstance(item, dict):
            waiting += [(inner, inner_secrecy, depth) for _, inner, inner_secrecy in _fields(item, secrecy)]
        elif isinstance(item, list):
            waiting += [(inner, inner_secrecy, depth) for inner, inner_secrecy in _items(item, secrecy)]
        elif isinstance(item, str):
            if secrecy and is_secret_text(item, secrecy):
                found |= {item} if is_distinctive(item) else set()
            elif depth < MAX_NESTING and (inner := json_inside(item)) is not None:
                waiting.append((inner, secrecy, depth + 1))
    return found


def _fields(item: dict[str, Any], secrecy: Secrecy) -> list[tuple[str, Any, Secrecy]]:
    """The fields of an object, each with how secret its value is."""
    if secrecy and _is_schema(item):
        return [(name, inner, secrecy if name in _SCHEMA_VALUES else "") for name, inner in item.items()]
    named = _paired(item)
    return [
        (
            name,
            inner,
            _secrecy_below(name, secrecy) or (named if name.lower() in VALUE_FIELDS and named else ""),
        )
        for name, inner in item.items()
    ]


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
    """Whether an object describes a field, as a JSON schema does, rather than holding its value."""
    return ("type" in item or "anyOf" in item) and not _SCHEMA_SIGNS.isdisjoint(item)


def _secrecy_below(name: str, secrecy: Secrecy) -> Secrecy:
    """How secret a field is that stands below another; some headers never are."""
    if secrecy == "shaped" and name.lower() in HARMLESS_HEADERS:
        return ""
    return secrecy or secrecy_of(name)


def _paired(item: dict[str, Any]) -> Secrecy:
    """How secret the value of an object is whose name stands in a field beside: {"name": …, "value": …}."""
    if len(item) < 2:
        return ""
    for name, inner in item.items():
        if isinstance(inner, str) and name.lower() in NAME_FIELDS and (secrecy := secrecy_of(inner)):
            value = next((item[other] for other in item if other.lower() in VALUE_FIELDS), None)
            is_secret = not isinstance(value, str) or is_paired_secret(value, secrecy)
            return secrecy if is_secret else ""
    return ""


def _items(item: list[Any], secrecy: Secrecy) -> list[tuple[Any, Secrecy]]:
    """The items of a list, each with how secret it is: the second of a name and its value is."""
    if not secrecy and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str):
        named = secrecy_of(item[0])
        if named and looks_random(item[1]) and not is_ordinary(item[1]):
            return [(item[0], ""), (item[1], named)]
    return [(inner, secrecy) for inner in item]


def _without(value: Any, judge: _Judge, depth: int, secrecy: Secrecy = "") -> Any:
    """What stays of a value below a name of this secrecy."""
    if isinstance(value, str):
        if secrecy and is_secret_text(value, secrecy):
            return MARKER
        return _text_without(value, judge, depth, secrecy)
    if isinstance(value, list):
        return [
            _without(inner, judge, depth, inner_secrecy) for inner, inner_secrecy in _items(value, secrecy)
        ]
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for name, inner, inner_secrecy in _fields(value, secrecy):
            shown = _text_without(name, judge, MAX_NESTING, "")
            if shown != name and shown in result:
                shown = f"{shown} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
            result[shown] = _without(inner, judge, depth, inner_secrecy)
        return result
    if isinstance(value, bool) or value is None:
        return value
    return MARKER if secrecy == "hard" or judge.known.is_number(value) else value


def _text_without(text: str, judge: _Judge, depth: int, secrecy: Secrecy) -> str:
    inner = json_inside(text) if depth < MAX_NESTING else None
    if inner is None:
        return judge.without(text)
    clean = _without(inner, judge, depth + 1, secrecy)
    return text if clean == inner else rewritten(text, inner, clean)
