"""Values that a field or a column names: beside the name, in another field, or in the rows of a table."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import re2

from viewer.redaction.names import OWN_VALUE_ONLY, Secrecy, is_secret_text, secrecy_of
from viewer.redaction.patterns import (
    TextSpan,
    anchored,
    compiled,
    is_machine_made,
    is_mixed,
    is_ordinary,
    is_words,
    looks_random,
    words,
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
_ITEM = anchored(r"[\s\[,]{1,40}+(\\*+[\"'])")


# The maximum number of items of a list that are examined.
MAX_ITEMS = 8


def items_at(data: bytes, at: int) -> Iterator[ValueSpan]:
    """Yield the first quoted texts of the list that begins here."""
    for _ in range(MAX_ITEMS):
        quote = _ITEM.match(data, at)
        item = quoted_at(data, quote.end(), quote[1]) if quote else None
        if quote is None or item is None:
            return
        yield item
        at = item.end + len(quote[1])


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


# Values that a neighbouring field names: name and value fields, XML.


NAME_FIELDS = frozenset(
    words("name key header field variable var param parameter env property option attribute")
)
VALUE_FIELDS = frozenset(words("value val values content default string_value stringvalue secret current"))
# Of these, fields that hold plain words only if they are a password.
WORD_FIELDS = VALUE_FIELDS - {"content", "default"}
# Fields that often hold other things: the name has to be short, and the value has to look like a secret.
LABEL_FIELDS = frozenset(
    words(
        "type kind format input_type inputtype __type__ id label title column k path selector question scheme"
    )
)
LABELLED_FIELDS = VALUE_FIELDS | frozenset(
    words("v data text input answer argument raw new old new_value newvalue old_value oldvalue")
)
MAX_LABEL = 40
# Fields that mark the value as secret, whatever its name is: {"type": "password"}, {"is_secret": true}.
MARKING_FIELDS = frozenset(words("type kind format input_type inputtype __type__"))
MARKING_KINDS = frozenset(
    words("password passwd passphrase secret secretstr securestring credential credentials")
)
MARKERS = frozenset(words("secret is_secret issecret sensitive is_sensitive issensitive masked confidential"))
MARKED_FIELDS = (VALUE_FIELDS - {"content"}) | frozenset(words("v data stringdata example examples const"))

# In other such fields, a prefix precedes both words: header_name and header_value, envKey and envValue.
_NAME_WORDS, _VALUE_WORDS = ("name", "Name", "NAME", "key", "Key", "KEY"), ("value", "Value", "VALUE")


def fields_of_value(name: str) -> tuple[str, ...]:
    """Return the names of the fields that may hold the value, if a field with this name holds its name."""
    prefixes = (name.removesuffix(word) for word in _NAME_WORDS if name.endswith(word))
    prefix = next(prefixes, "")
    return tuple(prefix + word for word in _VALUE_WORDS) if prefix else ()


class Naming(NamedTuple):
    """A field that names the value of other fields of its object, or marks it as secret."""

    field: str
    secrecy: Secrecy
    is_marker: bool = False
    name: str = ""

    def hides(self, field: str, value: object) -> bool:
        """Return whether another field holds the secret."""
        field = field.lower()
        if self.is_marker and field in MARKED_FIELDS:
            return not isinstance(value, str) or is_secret_text(value, self.secrecy)
        if self.field in NAME_FIELDS and field in VALUE_FIELDS:
            name = self.name if field in WORD_FIELDS else ""
            return not isinstance(value, str) or is_named_secret(value, name, self.secrecy)
        if field not in LABELLED_FIELDS or not isinstance(value, str):
            return False
        return is_cell_secret(value, self.secrecy) and (
            self.secrecy in ("hard", "soft") or is_machine_made(value)
        )


def naming_of(field: str, value: object) -> Naming | None:
    """Return what a field says of the others; None if it names and marks no secret."""
    field = field.lower()
    if value is True:
        return Naming(field, "hard", is_marker=True) if field in MARKERS else None
    if not isinstance(value, str):
        return None
    is_kind = field in MARKING_FIELDS
    if is_kind and value.lower().replace("_", "").replace("-", "") in MARKING_KINDS:
        return Naming(field, "hard", is_marker=True)
    if field in NAME_FIELDS or (field in LABEL_FIELDS and len(value) <= MAX_LABEL):
        secrecy = secrecy_of(value)
        return Naming(field, secrecy, name=value) if secrecy else None
    return None


def _alternatives(fields: Iterable[str]) -> str:
    return "|".join(sorted(fields, key=len, reverse=True))


_FIELD, _VALUE = _alternatives(NAME_FIELDS), _alternatives(VALUE_FIELDS)
_OPTIONAL_QUOTE = r"\\*[\"']?"
_SIGN = rf"{_OPTIONAL_QUOTE}\s{{0,4}}[:=]\s{{0,4}}"
_NAMING = compiled(
    rf"(?i)\b(?:({_alternatives(NAME_FIELDS | LABEL_FIELDS)}){_SIGN}"
    r"(?:\\*[\"']([/#A-Za-z][A-Za-z0-9_.\-/ ]{1,60})\\*[\"']|([/#A-Za-z][A-Za-z0-9_.\-/]{1,60}))"
    rf"|({_alternatives(MARKERS)}){_SIGN}true\b)"
)
_VALUED = compiled(
    rf"(?i)(?:^|[\s,;{{(\-]|\\n){_OPTIONAL_QUOTE}({_alternatives(LABELLED_FIELDS | MARKED_FIELDS)})"
    rf"{_SIGN}\s{{0,16}}"
)
# The end of what follows a name outside objects, such as an item in YAML.
_ITEM_END = compiled(r"[{}<>]|\n[ \t]*(?:-|\r?\n)|\\n[ \t]*-")
# The most bytes that are examined before and behind a name.
MAX_AROUND = 400
# The most fields of values that are examined before and behind a name.
MAX_VALUES = 3
_ATTRIBUTE = compiled(
    rf"(?i)<[A-Za-z][\w:.\-]{{0,40}}\s[^<>]{{0,200}}?"
    rf"\b(?:{_FIELD}|id)=\\*[\"']([A-Za-z][A-Za-z0-9_.\-]{{1,60}})\\*[\"'][^<>]{{0,100}}>([^<>]{{1,900}})<"
)
_ELEMENTS = compiled(
    rf"(?i)<(?:{_FIELD})>\s{{0,20}}([A-Za-z][A-Za-z0-9_.\- ]{{1,60}}?)\s{{0,20}}</[A-Za-z]{{1,20}}>"
    rf"(?:\s|\\n){{0,40}}<(?:{_VALUE}|string|data)>([^<>]{{1,900}})<"
)


def pair_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of values that a neighbouring field names."""
    yield from _pairs(data)
    if b"</" in data:
        yield from _elements(data)


def _pairs(data: bytes) -> Iterator[TextSpan]:
    namings = list(_namings(data))
    if not namings:
        return
    values = [_Valued(data, found) for found in _VALUED.finditer(data)]
    starts = [value.start for value in values]
    for (start, end), naming in namings:
        first, last = _object_around(data, start, end)
        nearest = bisect_left(starts, start)
        fewest, most = bisect_left(starts, first), bisect_left(starts, last)
        for value in values[max(fewest, nearest - MAX_VALUES) : min(most, nearest + MAX_VALUES)]:
            yield from (span for span, text in value.texts if naming.hides(value.field, text))


def _namings(data: bytes) -> Iterator[tuple[TextSpan, Naming]]:
    for found in _NAMING.finditer(data):
        field, name = found[1] or found[4], found[2] or found[3]
        if naming := naming_of(field.decode(), name.decode("latin-1") if name else True):
            yield found.span(), naming


class _Valued:
    """A field that may hold the value of a name, and its texts: several if it has a list."""

    def __init__(self, data: bytes, found: Any) -> None:
        self._data, self._at = data, found.end()
        self.start, self.field = found.start(1), found[1].decode()

    @cached_property
    def texts(self) -> list[tuple[TextSpan, str]]:
        value = value_at(self._data, self._at)
        spans = [(one.start, one.end) for one in ([value] if value else items_at(self._data, self._at))]
        return [((start, end), self._data[start:end].decode("utf-8", "replace")) for start, end in spans]


def _object_around(data: bytes, start: int, end: int) -> TextSpan:
    """Return the span of the object or XML element that has the field here, or of what follows the field."""
    first, last = max(0, start - MAX_AROUND), end + MAX_AROUND
    opening = max((data.rfind(sign, first, start), sign) for sign in (b"{", b"<"))
    closing = data.find(_CLOSING[opening[1]], end, last)
    is_open = opening[0] >= 0 and data.rfind(_CLOSING[opening[1]], opening[0], start) < 0
    if is_open:
        return opening[0], closing if closing >= 0 else last
    item = _ITEM_END.search(data[end:last])
    return end, end + item.start() if item else last


_CLOSING = {b"{": b"}", b"<": b">"}


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


_VARIABLE = re2.compile(r"^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$")
_PASSWORD = re2.compile(r"(?i)pass(?:word|wd|phrase|code)$|(?:^|[^a-z])pwd$")


def is_named_secret(text: str, name: str, secrecy: Secrecy) -> bool:
    """Return whether the value of this name is a secret: a word only if it names a variable or password."""
    if not is_words(text) or _VARIABLE.search(name):
        return is_secret_text(text, secrecy)
    return " " not in text and _PASSWORD.search(name) is not None and is_secret_text(text, secrecy)


def is_cell_secret(text: str, secrecy: Secrecy) -> bool:
    """Return whether a text that may as well be ordinary is a secret, by its form."""
    if " " in text or not is_paired_secret(text, secrecy):
        return False
    if secrecy == "hard":
        return len(text) >= 4 and (is_mixed(text) or not is_ordinary(text))
    return looks_random(text) and not is_ordinary(text)


# Tables in decoded JSON: {"columns": [names], "data": [rows]}, or rows the first of which has the names. What
# a database answers has both further inside: {"schema": {"fields": [{"name": …}]}, "rows": [{"f": […]}]}.


# The secrecy of each column of a table.
Columns = tuple[Secrecy, ...]
MAX_COLUMNS = 60
# The longest name of a column. Longer texts between separators are prose.
MAX_HEADING = 60
# Fields that hold the values of one row.
ROW_FIELDS = frozenset(words("row value values data cells f c"))
# Fields of an object that describes a column, and hold its name.
HEADING_FIELDS = NAME_FIELDS | {"label", "title"}
# Levels of objects in which the names of a table's columns are.
MAX_HEADER_DEPTH = 3


def columns_of(header: object) -> Columns:
    """Return the secrecy of the columns with these names, if one of them is secret; else an empty tuple."""
    if not isinstance(header, list) or len(header) > MAX_COLUMNS:
        return ()
    found = tuple(_secrecy_of_column(_column_name(column)) for column in header)
    return found if any(found) else ()


def _column_name(column: object) -> str:
    """Return the name of a column, which an object may describe; empty if it has none."""
    if isinstance(column, dict):
        column = next((inner for field, inner in column.items() if field.lower() in HEADING_FIELDS), None)
    return column if isinstance(column, str) else ""


def _secrecy_of_column(name: str) -> Secrecy:
    is_code = not _CODE_SIGNS.isdisjoint(name)
    return secrecy_of(name.replace(" ", "_")) if len(name) <= MAX_HEADING and not is_code else ""


_CODE_SIGNS = frozenset("()[]{}<>=;")


def tables_in(item: dict[str, Any]) -> dict[str, Columns]:
    """Return the columns of the tables whose names one field has and whose rows another, by the latter."""
    rows = [field for field, inner in item.items() if _may_have_rows(field, inner)]
    # By their number, so that rows are compared with few headers.
    headers: dict[int, Columns] = {}
    for columns in (one for inner in item.values() for one in _headers_in(inner)) if rows else ():
        others = headers.get(len(columns), columns)
        headers[len(columns)] = tuple(one or other for one, other in zip(columns, others, strict=True))
    return {
        field: columns for columns in headers.values() for field in rows if has_rows(item[field], columns)
    }


def _may_have_rows(field: str, value: Any) -> bool:
    """Return whether a value is a list that may have rows, or an object with one."""
    if isinstance(value, dict):
        return any(isinstance(inner, list) and _may_have_rows(name, inner) for name, inner in value.items())
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], list) or field.lower() in ROW_FIELDS or cells_in(value[0]) is not None


def _headers_in(value: Any, depth: int = 0) -> Iterator[Columns]:
    """Yield the columns that a list, or a list inside an object, names."""
    if isinstance(value, dict) and depth < MAX_HEADER_DEPTH:
        for inner in value.values():
            yield from _headers_in(inner, depth + 1)
    elif columns := columns_of(value):
        yield columns


def cells_in(row: Any) -> list[Any] | None:
    """Return the cells of a row, which may be in a field of an object; None if this is no row."""
    if isinstance(row, dict):
        row = next((inner for field, inner in row.items() if field.lower() in ROW_FIELDS), None)
    return row if isinstance(row, list) else None


def has_rows(rows: Any, columns: Columns) -> bool:
    """Return whether a list, or one in an object, has rows of these columns, or is one."""
    if isinstance(rows, dict):
        return any(isinstance(inner, list) and has_rows(inner, columns) for inner in rows.values())
    found = [cells for row in rows if (cells := cells_in(row)) is not None]
    return any(len(cells) == len(columns) for cells in found) if found else len(rows) == len(columns)


def rows_of(rows: list[Any], columns: Columns) -> list[tuple[Any, Secrecy | Columns]]:
    """Return the rows of a table with their columns, or the cells of a single row with their secrecy."""
    found = [(row, cells_in(row)) for row in rows]
    if len(rows) == len(columns) and all(cells is None for _row, cells in found):
        return [(cell, _secrecy_of_cell(cell, secrecy)) for cell, secrecy in zip(rows, columns, strict=True)]
    return [
        (row, columns if cells is not None and len(cells) == len(columns) else "") for row, cells in found
    ]


def _secrecy_of_cell(cell: Any, secrecy: Secrecy) -> Secrecy:
    """Return the secrecy of a cell in a column of this one. An object may hold its text: {"v": text}."""
    if isinstance(cell, str):
        return secrecy if is_cell_secret(cell, secrecy) else ""
    texts = list(cell.values()) if isinstance(cell, dict) and len(cell) <= MAX_CELL_FIELDS else []
    if not texts or not all(isinstance(text, str) for text in texts):
        return secrecy
    is_secret = any(is_cell_secret(text, secrecy) for text in texts)
    # Some levels say nothing about the fields of an object.
    return ("soft" if secrecy in OWN_VALUE_ONLY else secrecy) if is_secret else ""


# A value, and its form or type.
MAX_CELL_FIELDS = 2


# Tables in texts: Markdown, CSV, HTML, lists, and columns that blanks align.


class Cell(NamedTuple):
    """A cell of a row in a text, and where it begins."""

    start: int
    data: bytes

    @property
    def span(self) -> TextSpan:
        """The span of the text without quotes and signs of Markdown."""
        start = self.start + len(self.data) - len(self.data.lstrip(_CELL_SIGNS))
        return start, max(start, self.start + len(self.data.rstrip(_CELL_SIGNS)))

    @property
    def text(self) -> str:
        return self.data.strip(_CELL_SIGNS).decode("utf-8", "replace")


# The maximum number of rows that are examined below one header, and of bytes between two lists.
MAX_ROWS, MAX_BETWEEN = 10_000, 400
_CELL_SIGNS = b" \t*_`\"'\\\r\n"
# A line between rows, also of a box.
_RULE = compiled(r"^(?:[ \t|:=+\-]|\xe2[\x94\x95][\x80-\xbf]){3,}\r?$")
# Texts that may have separators inside.
_QUOTED = compiled(r"\"[^\"\n]{0,300}\"|\\\|")
_TAG = compiled(r"<[^<>]{1,300}>|\r?\n")
_ALIGNED = compiled(r"[^ \t]+(?: [^ \t]+)*")
_LIST = compiled(r"[\[(]([^\[\](){}]{3,1000})(?:[\])]|$)")
_LIST_OF_TEXTS = compiled(r"[\[(]\s{0,40}\\*[\"'][^\"']{1,60}[\"']\s{0,40}[,\])]")
_BAR = b"|"
_SEPARATORS = (_BAR, b",", b";", b"\t", "\N{BOX DRAWINGS LIGHT VERTICAL}".encode())


def table_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of cells below the names of secrets."""
    # Positions stay the same. In a text inside JSON, line breaks are escaped.
    plain = data.replace(b"\\n", b" \n").replace(b"\\t", b" \t")
    if b"\n" in plain:
        for separator in _SEPARATORS:
            if separator in plain:
                yield from _cells_below(_lines(plain, separator))
        if b"  " in plain:
            yield from _aligned_cells(plain)
    if b"</t" in data or b"</T" in data:
        yield from _cells_below(_lines(_TAG.sub(_without_tag, plain), _BAR))
    if _LIST_OF_TEXTS.search(data):
        yield from _cells_of_lists(data)


def _without_tag(tag: Any) -> bytes:
    """Return as many bytes as a tag of HTML has: the end of a cell or row, or blanks."""
    ends = {b"<tr": b"\n", b"</t": b"\n" if tag[0][3:4] in b"rR" else _BAR}
    return ends.get(tag[0][:3].lower(), b" ").rjust(len(tag[0]))


def _lines(data: bytes, separator: bytes) -> Iterator[list[Cell]]:
    at = 0
    for line in data.split(b"\n"):
        start, at = at, at + len(line) + 1
        if separator not in line:
            # Lines between the rows of a table have no separator, or another one.
            if not _RULE.search(line):
                yield []
            continue
        plain = _QUOTED.sub(_filled, line) if b'"' in line or b"\\|" in line else line
        yield _split(data, start, plain, separator)


def _filled(quoted: Any) -> bytes:
    return b"_" * len(quoted[0])


def _split(data: bytes, start: int, plain: bytes, separator: bytes) -> list[Cell]:
    row = []
    for cell in plain.split(separator, MAX_COLUMNS):
        row.append(Cell(start, data[start : start + len(cell)]))
        start += len(cell) + len(separator)
    return row


def _cells_below(rows: Iterable[list[Cell]]) -> Iterator[TextSpan]:
    columns: Columns = ()
    count = 0
    for row in rows:
        if columns and len(row) == len(columns) and count < MAX_ROWS:
            count += 1
            yield from _secret_cells(row, columns)
        else:
            columns, count = _columns_of_row(row) if len(row) > 1 else (), 0


def _columns_of_row(row: list[Cell]) -> Columns:
    if any(len(cell.data.strip()) > MAX_HEADING or b":" in cell.data or b"=" in cell.data for cell in row):
        return ()
    found = tuple(_secrecy_of_column(cell.text) for cell in row)
    return found if any(found) else ()


def _secret_cells(row: list[Cell], columns: Columns) -> Iterator[TextSpan]:
    for cell, secrecy in zip(row, columns, strict=True):
        if secrecy and not _RULE.search(cell.data) and is_cell_secret(cell.text, secrecy):
            yield cell.span


def _cells_of_lists(data: bytes) -> Iterator[TextSpan]:
    """Yield the cells of lists such as ("bob", "…") that follow a list of quoted names."""
    columns: Columns = ()
    end = 0
    for found in _LIST.finditer(data):
        if found.start() - end > MAX_BETWEEN:
            columns = ()
        row = _split(data, found.start(1), _QUOTED.sub(_filled, found[1]), b",")
        if columns and len(row) == len(columns):
            yield from _secret_cells(row, columns)
        elif all(cell.data.rstrip().endswith((b'"', b"'")) for cell in row):
            columns = _columns_of_row(row) or columns
        end = found.end()


def _aligned_cells(data: bytes) -> Iterator[TextSpan]:
    """Yield the cells below the names in columns that only blanks separate."""
    # The end and start of each secret name, and its secrecy.
    named: list[tuple[int, int, Secrecy]] = []
    at = 0
    for line in data.split(b"\n"):
        start, at = at, at + len(line) + 1
        words = list(_ALIGNED.finditer(line)) if b"  " in line.strip() else []
        if not 2 <= len(words) <= MAX_COLUMNS:
            named = named if _RULE.search(line) else []
        elif named:
            for word in words:
                below = bisect_right(named, (word.start(), len(line), ""))
                if below < len(named) and named[below][1] < word.end():
                    yield from _secret_cells([Cell(start + word.start(), word[0])], (named[below][2],))
        elif columns := _columns_of_row([Cell(0, word[0]) for word in words]):
            found = zip(words, columns, strict=True)
            named = [(word.end(), word.start(), secrecy) for word, secrecy in found if secrecy]
