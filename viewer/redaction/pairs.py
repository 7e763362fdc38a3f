"""Values that a neighbouring field or column names, and the span of a value that follows a name."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from viewer.redaction.names import Secrecy, is_secret_text, secrecy_of
from viewer.redaction.patterns import (
    TextSpan,
    anchored,
    compiled,
    is_mixed,
    is_ordinary,
    is_words,
    looks_random,
)

# The span of a value that follows a name: in quotes, bare, in a call, or in an indented block.


# The maximum number of bytes that are examined of a quoted and of a bare value.
MAX_VALUE, MAX_BARE = 8192, 300

Form = Literal["quoted", "bare", "block"]


class ValueSpan(NamedTuple):
    """The span of a value without its quotes, and its form."""

    start: int
    end: int
    form: Form


_QUOTE = anchored(r"(?:[rRbBuUfF]{1,2}+(?=[\\\"'`]))?+(\\*+)(\"\"\"|'''|[\"'`])")
# A YAML anchor or tag before the value.
_ANCHOR = anchored(r"[&!][A-Za-z_!][\w!\-]{0,40}+[ \t]++")
_CALL = anchored(r"(?:new )?+[A-Za-z_][A-Za-z_.]{0,60}+\(\s{0,20}+(?:[a-z_]{1,20}+=)?+(\\*+[\"'`])")
# Calls that read a value from elsewhere: their argument is a name.
_READS = compiled(
    r"(?i)(?:env|get|input|prompt|read|load|fetch|config|setting|vault|find|lookup|file|path|open|ask|param|column|field\()"
)
_SECRET_CALL = compiled(r"(?i)(?:secret|password|token)(?:str|bytes|string|value|text)?\(")
_WORD = r"[^\s\"'`\\,;&<>()\[\]{}|]"
_BARE = anchored(rf"(?:(?i:basic|bearer|token|apikey|bot)[ \t]++(?={_WORD}))?+{_WORD}++")
_REST = anchored(rf"{_WORD}++")
# Printable characters of ASCII, for texts that put no space after a value.
_ASCII = anchored(r"[!-~]++")
_BLOCK = anchored(r"[|>][+\-]?+\d?+[ \t]*+(?:#[^\n]{0,200}+)?+(?:\\n|\n)")
_BLOCK_LINE = anchored(r"[ \t]++[^\n\\]*+(?:\\n|\n|$)|[ \t]*+(?:\\n|\n)")


def value_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the value that begins here; None if there is none."""
    first = data[at : at + 1]
    if first in (b"&", b"!") and (anchor := _ANCHOR.match(data, at, at + 80)):
        at = anchor.end()
    if quote := _QUOTE.match(data, at, at + MAX_VALUE):
        return quoted_at(data, quote.end(), quote[1] + quote[2]) or bare_at(data, quote.end())
    if first in (b"|", b">"):
        return _block_at(data, at)
    if first.isalpha() and (call := _CALL.match(data, at, at + 200)):
        name = data[at : call.start(1)]
        if _READS.search(name) and not _SECRET_CALL.search(name):
            return None
        return quoted_at(data, call.end(), call[1])
    return bare_at(data, at)


def quoted_at(data: bytes, start: int, quote: bytes) -> ValueSpan | None:
    """Return the text up to the closing quote, which is escaped like the opening one."""
    limit = min(len(data), start + MAX_VALUE)
    at = start
    while (end := data.find(quote, at, limit)) >= 0:
        slashes = 0
        while end - slashes > start and data[end - slashes - 1] == _BACKSLASH:
            slashes += 1
        if not slashes % 2:
            break
        at = end + 1
    if end < 0 or (len(quote) == 1 and data.find(b"\n", start, end) >= 0):
        return None
    return ValueSpan(start, end, "quoted")


_BACKSLASH = ord("\\")


def bare_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the word that begins here, with a credential's scheme before it. A long word is cut."""
    found = _BARE.match(data, at, at + MAX_BARE)
    if found is None:
        return None
    end = at + len(found[0].rstrip(b".:*"))
    return ValueSpan(at, end, "bare") if end > at else None


def ascii_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the characters of ASCII that begin here: in Chinese, the text goes on without a space."""
    found = _ASCII.match(data, at, at + MAX_BARE)
    if found is None:
        return None
    word = found[0]
    start = at + len(word) - len(word.lstrip(b"\"'`*(["))
    end = at + len(word.rstrip(b".,;:!?*\"'`)]"))
    return ValueSpan(start, end, "bare") if end > start else None


def complete_span(data: bytes, value: ValueSpan) -> tuple[int, int]:
    """Return the span of a value, including the rest of a long word."""
    is_cut = value.form == "bare" and value.end - value.start >= MAX_BARE - 3
    rest = _REST.match(data, value.end) if is_cut else None
    return value.start, rest.end() if rest else value.end


def _block_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the indented lines of a YAML block scalar."""
    head = _BLOCK.match(data, at, at + 300)
    if head is None:
        return None
    start = end = head.end()
    while end - start < MAX_VALUE and (line := _BLOCK_LINE.match(data, end, end + MAX_VALUE)) and line[0]:
        end = line.end()
    lines = data[start:end]
    first = start + len(lines) - len(lines.lstrip(b" \t"))
    last = start + len(lines.removesuffix(b"\\n").rstrip())
    return ValueSpan(first, last, "block") if last > first else None


# Values that a neighbouring field or column names: name and value fields, XML, columns of a table.


NAME_FIELDS = frozenset(
    [
        "name",
        "key",
        "header",
        "field",
        "variable",
        "var",
        "param",
        "parameter",
        "env",
        "property",
        "option",
        "attribute",
    ]
)
VALUE_FIELDS = frozenset(
    ["value", "val", "values", "content", "default", "string_value", "stringvalue", "secret", "current"]
)

# In other such fields, a prefix precedes both words: header_name and header_value, envKey and envValue.
_NAME_WORDS, _VALUE_WORDS = ("name", "Name", "NAME", "key", "Key", "KEY"), ("value", "Value", "VALUE")


def fields_of_value(name: str) -> tuple[str, ...]:
    """Return the names of the fields that may hold the value, if a field with this name holds its name."""
    prefixes = (name.removesuffix(word) for word in _NAME_WORDS if name.endswith(word))
    prefix = next(prefixes, "")
    return tuple(prefix + word for word in _VALUE_WORDS) if prefix else ()


_FIELD = "|".join(sorted(NAME_FIELDS))
_VALUE = "|".join(sorted(VALUE_FIELDS, key=len, reverse=True))
_PAIR = compiled(
    rf"(?i)\b(?:{_FIELD})\\*[\"']?\s{{0,4}}[:=]\s{{0,4}}\\*[\"']?([A-Za-z][A-Za-z0-9_.\-]{{1,60}})\\*[\"']?"
    rf"(?:\s|\\n|[,;\-]){{1,60}}\\*[\"']?(?:{_VALUE})\\*[\"']?\s{{0,4}}[:=]\s{{0,20}}"
)
_ATTRIBUTE = compiled(
    rf"(?i)<[A-Za-z][\w:.\-]{{0,40}}\s[^<>]{{0,200}}?"
    rf"\b(?:{_FIELD}|id)=\\*[\"']([A-Za-z][A-Za-z0-9_.\-]{{1,60}})\\*[\"'][^<>]{{0,100}}>([^<>]{{1,900}})<"
)
_ELEMENTS = compiled(
    rf"(?i)<(?:{_FIELD})>\s{{0,20}}([A-Za-z][A-Za-z0-9_.\- ]{{1,60}}?)\s{{0,20}}</[A-Za-z]{{1,20}}>"
    rf"(?:\s|\\n){{0,40}}<(?:{_VALUE}|string|data)>([^<>]{{1,900}})<"
)
# The maximum number of rows that are examined below one header of a table.
MAX_ROWS = 10_000
_RULE = compiled(r"^[ \t|:\-+]{3,}$")


def pair_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of values that a neighbouring field or column names."""
    lowered = data.lower()
    if (
        b"val" in lowered
        or b"content" in lowered
        or b"default" in lowered
        or b"secret" in lowered
        or b"current" in lowered
    ):
        yield from _pairs(data)
    if b"</" in data:
        yield from _elements(data)
    if b"|" in data and b"--" in data:
        yield from _columns(data, b"|")
    if b"," in data and (b"\n" in data):
        yield from _columns(data, b",")


def _pairs(data: bytes) -> Iterator[TextSpan]:
    for found in _PAIR.finditer(data):
        secrecy = secrecy_of(found[1].decode("latin-1"))
        value = value_at(data, found.end()) if secrecy else None
        if value is None:
            continue
        text = data[value.start : value.end].decode("utf-8", "replace")
        if is_paired_secret(text, secrecy):
            yield value.start, value.end


def _elements(data: bytes) -> Iterator[TextSpan]:
    for pattern in (_ATTRIBUTE, _ELEMENTS):
        for found in pattern.finditer(data):
            secrecy = secrecy_of(found[1].decode("latin-1").replace(" ", "_"))
            text = found[2].decode("utf-8", "replace")
            if secrecy and is_paired_secret(text.strip(), secrecy):
                yield found.span(2)


def is_paired_secret(text: str, secrecy: Secrecy) -> bool:
    """Return whether the value of a secret's name is a secret."""
    return is_secret_text(text, secrecy) and not is_words(text)


def _columns(data: bytes, separator: bytes) -> Iterator[TextSpan]:
    """Yield the cells below the names of secrets, in a Markdown table or in comma-separated values."""
    secret: dict[int, Secrecy] = {}
    count = rows = at = 0
    for line in data.split(b"\n"):
        start, at = at, at + len(line) + 1
        cells = line.split(separator, 60) if separator in line else []
        if len(cells) < 2:
            secret = {}
        elif secret and len(cells) == count and rows < MAX_ROWS:
            rows += 1
            yield from _cells(cells, start, secret)
        else:
            secret, count, rows = _secret_columns(cells), len(cells), 0


def _secret_columns(cells: list[bytes]) -> dict[int, Secrecy]:
    if any(len(cell) > 60 or b":" in cell or b"=" in cell for cell in cells):
        return {}
    names = [cell.strip(b" \t*_`\"'\r").decode("utf-8", "replace").replace(" ", "_") for cell in cells]
    return {column: secrecy for column, name in enumerate(names) if (secrecy := secrecy_of(name))}


def _cells(cells: list[bytes], start: int, secret: dict[int, Secrecy]) -> Iterator[TextSpan]:
    for column, cell in enumerate(cells):
        if column in secret and not _RULE.search(cell):
            plain = cell.strip(b" \t*_`\"'\r")
            text = plain.decode("utf-8", "replace")
            if is_paired_secret(text, secret[column]) and _looks_secret(text, secret[column]):
                first = start + cell.find(plain)
                yield first, first + len(plain)
        start += len(cell) + 1


def _looks_secret(text: str, secrecy: Secrecy) -> bool:
    if " " in text:
        return False
    if secrecy == "hard":
        return len(text) >= 4 and (is_mixed(text) or not is_ordinary(text))
    return looks_random(text) and not is_ordinary(text)
