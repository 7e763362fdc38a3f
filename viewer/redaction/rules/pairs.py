"""Values that a neighbouring field or column names: name and value fields, XML, columns of a table."""

from collections.abc import Iterator

from viewer.redaction.names.secrecy import Secrecy, is_secret_text, secrecy_of
from viewer.redaction.names.shapes import is_mixed, is_ordinary, is_words, looks_random
from viewer.redaction.patterns import TextSpan, compiled
from viewer.redaction.rules.value_spans import value_at

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
