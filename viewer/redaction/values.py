"""Redact decoded JSON values, JSON in texts, and JSON bytes, before anything is stored, sent or logged."""

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER, hidden
from viewer.redaction.keywords import STREAMED_KEYWORDS, KeywordSearch, keywords, may_hold_secret
from viewer.redaction.known_secrets import (
    NONE_KNOWN,
    KnownSecrets,
    private_key_spans,
    redact_text,
    spans_in,
)
from viewer.redaction.names import Secrecy, is_secret_number, is_secret_text, secrecy_below, secrecy_of
from viewer.redaction.pairs import (
    HEADING_FIELDS,
    ROW_FIELDS,
    Columns,
    columns_of,
    fields_of_value,
    has_rows,
    is_named_secret,
    naming_of,
    rows_of,
    tables_in,
)
from viewer.redaction.patterns import (
    INVISIBLE,
    LOOK_ALIKES,
    TextSpan,
    compiled,
    is_distinctive,
    is_machine_made,
    is_ordinary,
    looks_random,
    merged,
    without_spans,
)
from viewer.redaction.streamed_parts import may_have_parts, without_streamed
from viewer.redaction.vendor_tokens import token_spans

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
    return _redacted(value, _TextRedactor(repeated, known, may_have_parts(value)), 0)


def is_clean(text: str) -> bool:
    """Return whether redaction leaves this text unchanged."""
    return bool(redact(text) == text)


class _TextRedactor:
    """Redacts the texts of one value: known secrets, and secrets of its fields that other texts repeat."""

    def __init__(self, repeated: KnownSecrets, known: KnownSecrets, has_parts: bool) -> None:
        self.repeated, self.known, self.has_parts = repeated, known, has_parts

    def redacted(self, text: str) -> str:
        if self.repeated or self.known:
            data = text.encode("utf-8", "surrogatepass")
            clean = self.repeated.redacted_in(self.known.redacted_in(data))
            if clean is not data:
                text = clean.decode("utf-8", "surrogatepass")
        return redact_text(text)

    def without_streamed(self, items: list[Any]) -> list[Any]:
        """Return items without the secrets that are split over their texts."""
        return without_streamed(items, self._spans_in) if self.has_parts and len(items) > 1 else items

    def _spans_in(self, data: bytes) -> list[TextSpan]:
        return merged([*self.repeated.spans(data), *self.known.spans(data), *spans_in(data)])


def secrets_in(value: Any) -> set[str]:
    """Return the values of secret fields that are distinctive enough to be searched in other texts."""
    found: set[str] = set()
    pending: list[tuple[Any, Secrecy | Columns, int]] = [(value, "", 0)]
    while pending:
        item, secrecy, depth = pending.pop()
        if isinstance(item, list):
            pending += [(inner, inner_secrecy, depth) for inner, inner_secrecy in _items(item, secrecy)]
        elif isinstance(item, dict):
            pending += [(inner, inner_secrecy, depth) for _, inner, inner_secrecy in _fields(item, secrecy)]
        elif isinstance(secrecy, tuple):
            # Only lists and objects have columns.
            pending.append((item, "", depth))
        elif isinstance(item, str):
            if secrecy and is_secret_text(item, secrecy):
                found |= {item} if is_distinctive(item) else set()
            elif depth < MAX_NESTING and (inner := json_inside(item)) is not None:
                pending.append((inner, secrecy, depth + 1))
    return found


def _fields(item: dict[str, Any], secrecy: Secrecy | Columns) -> list[tuple[str, Any, Secrecy | Columns]]:
    """Return the fields of an object: name, value and secrecy, or that of the columns of a table."""
    others: dict[str, Secrecy | Columns] = {}
    if isinstance(secrecy, tuple):
        lists = [(name, inner) for name, inner in item.items() if isinstance(inner, list)]
        others |= {name: secrecy for name, inner in lists if has_rows(inner, secrecy)}
        secrecy = ""
    if secrecy and _is_schema(item):
        return [(name, inner, secrecy if name in _SCHEMA_VALUES else "") for name, inner in item.items()]
    others |= {**tables_in(item), **_named_by_prefix(item), **_named(item)}
    # A model signs what it thought. Without the signature, the thought cannot be sent again.
    harmless = SIGNED if not SIGNED_WITH.isdisjoint(item) else ()
    return [
        (
            name,
            inner,
            ("" if name in harmless else secrecy_below(name, secrecy)) or others.get(name, ""),
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


_SCHEMA_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])


def _is_schema(item: dict[str, Any]) -> bool:
    """Return whether an object describes a field, as a JSON schema does, instead of holding its value."""
    found = item.get("type", "string" if "anyOf" in item else "")
    types = found if isinstance(found, list) else [found]
    is_typed = all(isinstance(one, str) and one in _SCHEMA_TYPES for one in types)
    return is_typed and not _SCHEMA_SIGNS.isdisjoint(item)


def _named(item: dict[str, Any]) -> dict[str, Secrecy]:
    """Return the secrecy of values that another field names, as in {"name": …, "value": …}, by field."""
    namings = [naming for name, inner in item.items() if (naming := naming_of(name, inner))]
    return {
        field: naming.secrecy
        for naming in namings
        for field, inner in item.items()
        if naming.hides(field, inner)
    }


def _named_by_prefix(item: dict[str, Any]) -> dict[str, Secrecy]:
    """Return the secrecy of values in an object such as {"header_name": …, "header_value": …}, by field."""
    found: dict[str, Secrecy] = {}
    for name, inner in item.items():
        if isinstance(inner, str) and len(inner) <= MAX_PAIRED and (fields := fields_of_value(name)):
            for field in fields:
                value = item.get(field)
                if value is not None and (secrecy := secrecy_of(inner)):
                    is_secret = not isinstance(value, str) or is_named_secret(value, inner, secrecy)
                    found[field] = secrecy if is_secret else ""
    return found


# The most characters of a text that is a name.
MAX_PAIRED = 200


def _items(item: list[Any], secrecy: Secrecy | Columns) -> list[tuple[Any, Secrecy | Columns]]:
    """Return the items of a list with their secrecy: also of a table, or of a pair of a name and a value."""
    if isinstance(secrecy, tuple):
        return rows_of(item, secrecy)
    if not secrecy and len(item) > 1 and isinstance(item[0], list) and (columns := columns_of(item[0])):
        return [(item[0], ""), *rows_of(item[1:], columns)]
    if not secrecy and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str):
        named = secrecy_of(item[0])
        is_flag = item[1].startswith("--")
        if named and looks_random(item[1]) and not is_ordinary(item[1]) and not is_flag:
            return [(item[0], ""), (item[1], named)]
    return [(inner, secrecy) for inner in item]


# A secret may also be split over the texts of a list: the arguments of a command, raw headers, the lines of a
# private key. They are judged by the rules for texts, as a program prints them.

# Longer texts are judged alone.
MAX_LISTED = 300
# The most texts of a list over which a token may be split.
MAX_PARTS = 8
_BETWEEN_ITEMS = b'", "'


def listed_spans(items: list[Any]) -> list[tuple[int, TextSpan]]:
    """Return the spans in texts of a list that their neighbours reveal: the text's position, and the span."""
    found: list[tuple[int, TextSpan]] = []
    run: list[tuple[int, bytes]] = []
    for number, item in enumerate([*items, None]):
        if isinstance(item, str) and _is_listed(text := item.rstrip("\r\n")):
            run.append((number, text.encode("utf-8", "surrogatepass")))
            continue
        if len(run) > 1:
            found += _spans_in_run(run)
        run = []
    return found


def _is_listed(text: str) -> bool:
    """Return whether a text is judged with its neighbours: one line without quotes, and no JSON."""
    return len(text) <= MAX_LISTED and not text.startswith(("{", "[")) and not {"\n", '"'} & {*text}


def _spans_in_run(run: list[tuple[int, bytes]]) -> Iterator[tuple[int, TextSpan]]:
    if not may_hold_secret(b'"' + _BETWEEN_ITEMS.join(item for _number, item in run) + b'"'):
        return
    # A longer list has no parts of one token, but names that together may look like one.
    for between in (_BETWEEN_ITEMS, b" ", b"") if len(run) <= MAX_PARTS else (_BETWEEN_ITEMS, b" "):
        data = b'"' + between.join(item for _number, item in run) + b'"'
        spans = spans_in(data) if between else []
        # Only a private key or a token has several parts. A value would end with the quote behind its text.
        whole = list(private_key_spans(data) if between else _long_tokens(data))
        at = 1
        for number, item in run:
            end = at + len(item)
            inside = [span for span in spans if at <= span[0] and span[1] <= end]
            parts = [(max(first, at), min(last, end)) for first, last in whole if first < end and last > at]
            yield from ((number, (first - at, last - at)) for first, last in [*inside, *parts])
            at = end + len(between)


def _long_tokens(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of tokens that are no words without a space between them."""
    for start, end in token_spans(data):
        token = data[start:end].decode("latin-1")
        if _LONG_RUN.search(token) and is_machine_made(token) and not token.islower():
            yield start, end


_LONG_RUN = re.compile(r"[A-Za-z0-9]{16}")


def _without_listed(items: list[Any]) -> list[Any]:
    """Return the items of a list without what their neighbours reveal as secret."""
    by_item: dict[int, list[TextSpan]] = {}
    for number, span in listed_spans(items):
        by_item.setdefault(number, []).append(span)
    if not by_item:
        return items
    clean = list(items)
    for number, spans in by_item.items():
        data = without_spans(clean[number].encode("utf-8", "surrogatepass"), merged(spans))
        clean[number] = data.decode("utf-8", "surrogatepass")
    return clean


def _redacted(value: Any, texts: _TextRedactor, depth: int, secrecy: Secrecy | Columns = "") -> Any:
    """Return a field's value, redacted by the field's secrecy. ``depth``: levels of JSON inside texts."""
    if isinstance(value, list):
        return [
            _redacted(inner, texts, depth, inner_secrecy)
            for inner, inner_secrecy in _items(texts.without_streamed(_without_listed(value)), secrecy)
        ]
    if isinstance(value, dict):
        return _redacted_object(value, texts, depth, secrecy)
    if isinstance(secrecy, tuple):
        # Only lists and objects have columns.
        secrecy = ""
    if isinstance(value, str):
        if secrecy and is_secret_text(value, secrecy):
            hidden.add(1)
            return MARKER
        return _redacted_text(value, texts, depth, secrecy)
    if isinstance(value, bool) or value is None:
        return value
    if is_secret_number(value, secrecy) or texts.known.is_number(value):
        hidden.add(1)
        return MARKER
    return value


def _redacted_object(
    value: dict[str, Any], texts: _TextRedactor, depth: int, secrecy: Secrecy | Columns
) -> dict[str, Any]:
    if texts.has_parts:
        value = dict(zip(value, texts.without_streamed(list(value.values())), strict=True))
    result: dict[str, Any] = {}
    for name, inner, inner_secrecy in _fields(value, secrecy):
        clean_name = _redacted_text(name, texts, MAX_NESTING, "")
        if clean_name != name and clean_name in result:
            clean_name = f"{clean_name} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
        result[clean_name] = _redacted(inner, texts, depth, inner_secrecy)
    return result


def _redacted_text(text: str, texts: _TextRedactor, depth: int, secrecy: Secrecy) -> str:
    inner = json_inside(text) if depth < MAX_NESTING else None
    if inner is None:
        return texts.redacted(text)
    try:
        clean = _redacted(inner, texts, depth + 1, secrecy)
    except RecursionError:
        return texts.redacted(text)
    return text if clean == inner else rewritten(text, inner, clean)


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
# The most white space between two texts.
_BETWEEN = 400
# What precedes a field's value: its name.
_FIELD_BEFORE = re.compile(rb'"([A-Za-z_\-]{1,30})"\s*:\s*\Z')
_LIST_PAIR = re.compile(rb'\s*,\s*"[^"]*"\s*\]')
_ROWS = re.compile(rb'\[\s*\[|"(?i:' + "|".join(sorted(ROW_FIELDS)).encode() + rb')"\s*:\s*\[')
_REST_OF_NAME = re.compile(rb'[^"\\]{0,200}"\s*:')
_WORD_CHARACTER = re.compile(rb"[A-Za-z0-9_\-\x80-\xff]")
_INVISIBLE_ESCAPES = frozenset(f"{ord(one):04x}".encode() for one in INVISIBLE)
_LOOK_ALIKE_ESCAPES = frozenset(f"{ord(one):04x}".encode() for one in LOOK_ALIKES)
# The first half of the pair of a mathematical letter.
_MATHEMATICAL = b"d835"
# The most bytes of a name in JSON: each character may be an escape of six.
_MAX_ESCAPED_NAME = 6 * MAX_PAIRED + 2
_SIGNATURE = b'"signature"'
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+\-]*")
_PART_SIGNS = tuple(sign.encode() for sign in STREAMED_KEYWORDS)


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
    if sum(data.startswith(_PART_SIGNS, at) for at in findings.positions) > 1:
        # A secret may be split over the parts of a streamed text.
        raise _NotPlain
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
    if colon is None:
        return _examine_value(data, position, (start, end), clean)
    if data.startswith(b"true", colon.end()) and naming_of(text[0][1:-1].decode("utf-8", "replace"), True):
        _check_object(data, start, end)
        return _Verdict(start - position, end + _AFTER - position, end - position)
    secrecy = _secrecy(text[0])
    if not secrecy:
        _check_once(text[0], clean)
        return _Verdict(start - position, colon.end() - position, end - position)
    rest = _PLAIN_REST.match(data, colon.end())
    if rest or (secrecy not in ("hard", "code") and (rest := _NUMBER.match(data, colon.end()))):
        return _Verdict(start - position, rest.end() + 1 - position, rest.end() - position)
    value = _PLAIN_TEXT.match(data, colon.end())
    if value is None or not value[1].isascii():
        raise _NotPlain
    if is_secret_text(value[1].decode(), secrecy):
        if text[0] == _SIGNATURE:
            # Whether it signs a thought depends on the other fields of its object.
            raise _NotPlain
        first, last = value.span(1)
        return _Verdict(
            start - position, last + 1 - position, last + 1 - position, (first - position, last - position)
        )
    return _Verdict(start - position, value.end() - position, end - position)


def _examine_value(data: bytes, position: int, span: TextSpan, clean: set[bytes]) -> _Verdict:
    start, end = span
    if listed := _check_listed(data, start, end):
        return _Verdict(listed[0] - position, listed[1] + _AFTER - position, listed[1] - position)
    is_name = _check_pair(data, start, data[start:end], end)
    _check_once(data[start:end], clean)
    # More white space could lead to a colon, and any other field of the document may hold a name's value.
    is_last = not is_name and not data[end : end + 1].isspace()
    return _Verdict(start - position, end + (1 if is_last else _AFTER) - position, end - position)


def _check_once(text: bytes, clean: set[bytes]) -> None:
    if text not in clean:
        check = _check_text if len(text) > 200 else _check_short_text
        check(text)
        clean.add(text)


def _check_pair(data: bytes, start: int, text: bytes, end: int) -> bool:
    """Return whether a value is a secret's name. Raise _NotPlain if another field may hold the secret."""
    if len(text) > _MAX_ESCAPED_NAME:
        return False
    try:
        plain = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _NotPlain from None
    if not (secrecy_of(plain) or columns_of([plain])):
        return False
    before = data[max(0, start - _BETWEEN) : start]
    field = _FIELD_BEFORE.search(before)
    if field is None:
        if _LIST_PAIR.match(data, end) or not before.strip() or _may_have_rows(data):
            raise _NotPlain
        return True
    name = field[1].decode()
    if any(f'"{one}"'.encode() in data for one in fields_of_value(name)):
        raise _NotPlain
    if naming_of(name, plain):
        _check_object(data, start, end)
    if name.lower() in HEADING_FIELDS and _may_have_rows(data):
        raise _NotPlain
    return True


@lru_cache(maxsize=1)
def _may_have_rows(data: bytes) -> bool:
    """Return whether a list may be the header of a table. Cached for the names of one document."""
    return _ROWS.search(data) is not None


def _check_object(data: bytes, start: int, end: int) -> None:
    """Raise _NotPlain if the field at this position names or marks the secret of another field."""
    opening, closing = data.rfind(b"{", max(0, start - 2000), start), data.find(b"}", end, end + 2000)
    try:
        item = msgspec.json.decode(data[max(0, opening) : closing + 1], type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        # It has other objects inside, or is long.
        raise _NotPlain from None
    if _named(item):
        raise _NotPlain


_ITEMS_AFTER = re.compile(rb'(?:\s*,\s*"[^"\\]*(?:\\.[^"\\]*)*")+', re.DOTALL)
_ITEM_BEFORE = re.compile(rb'"\s*,\s*\Z')


def _check_listed(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the span of all texts of a list around this one, which are clean; None if it is the only one.

    Raises _NotPlain if ``redact`` would change one of them.
    """
    before = data[max(0, start - _BETWEEN) : start].rstrip()
    if before[-1:] not in (b"[", b","):
        if start > _BETWEEN and not before:
            raise _NotPlain
        return None
    # The names of fields are followed by a colon, so this is a list.
    after = _ITEMS_AFTER.match(data, end)
    last = after.end() if after else end
    first = start
    while item := _ITEM_BEFORE.search(data, max(0, first - _BETWEEN), first):
        first = _start_of_text(data, item.start())
    if (first, last) == (start, end):
        return None
    try:
        items = msgspec.json.decode(b"[" + data[first:last] + b"]", type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _NotPlain from None
    if redact(items) != items or (columns_of(items) and _may_have_rows(data)):
        raise _NotPlain
    return first, last


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
            is_next_to_letter = data[start - 1 : start].isalpha() or escape[6:7].isalpha()
            if is_next_to_letter and escape[2:6] in _LOOK_ALIKE_ESCAPES:
                raise _NotPlain
            continue
        if escape[2:6] == _MATHEMATICAL:
            raise _NotPlain
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
