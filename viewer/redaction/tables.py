"""Cells of tables below the names of secrets: in JSON, and in texts as Markdown, CSV, HTML or lists."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from viewer.redaction.names import Secrecy, secrecy_of
from viewer.redaction.pairs import NAME_FIELDS, is_cell_secret
from viewer.redaction.patterns import TextSpan, compiled

# The secrecy of each column of a table.
Columns = tuple[Secrecy, ...]
MAX_COLUMNS = 60
# The longest name of a column. Longer texts between separators are prose.
MAX_NAME = 60

# Tables in decoded JSON: {"columns": [names], "data": [rows]}, or rows the first of which has the names.

# Fields that hold one row of values without a list around it.
ROW_FIELDS = frozenset(["row", "value", "values"])


def columns_of(header: object) -> Columns:
    """Return the secrecy of the columns with these names, if one of them is secret; else an empty tuple."""
    if not isinstance(header, list) or len(header) > MAX_COLUMNS:
        return ()
    found = tuple(_secrecy_of_column(_column_name(column)) for column in header)
    return found if any(found) else ()


def _column_name(column: object) -> str:
    """Return the name of a column, which an object may describe; empty if it has none."""
    if isinstance(column, dict):
        column = next((inner for field, inner in column.items() if field.lower() in NAME_FIELDS), None)
    return column if isinstance(column, str) else ""


def _secrecy_of_column(name: str) -> Secrecy:
    is_code = not _CODE_SIGNS.isdisjoint(name)
    return secrecy_of(name.replace(" ", "_")) if len(name) <= MAX_NAME and not is_code else ""


_CODE_SIGNS = frozenset("()[]{}<>=;")


def tables_in(item: dict[str, Any]) -> dict[str, Columns]:
    """Return the columns of the tables whose names one field has and whose rows another, by the latter."""
    rows = [
        field
        for field, inner in item.items()
        if isinstance(inner, list) and inner and (isinstance(inner[0], list) or field.lower() in ROW_FIELDS)
    ]
    headers = [columns for inner in item.values() if (columns := columns_of(inner))] if rows else []
    return {field: columns for columns in headers for field in rows if has_rows(item[field], columns)}


def has_rows(rows: list[Any], columns: Columns) -> bool:
    """Return whether a list has rows of these columns, or is one."""
    lists = [row for row in rows if isinstance(row, list)]
    return any(len(row) == len(columns) for row in lists) if lists else len(rows) == len(columns)


def cells_of(row: list[Any], columns: Columns) -> list[tuple[Any, Secrecy]]:
    """Return the cells of a row with their secrecy."""
    return [
        (cell, secrecy if not isinstance(cell, str) or is_cell_secret(cell, secrecy) else "")
        for cell, secrecy in zip(row, columns, strict=True)
    ]


# Tables in texts.


class Cell(NamedTuple):
    """A cell of a row in a text, and where it begins."""

    start: int
    data: bytes

    @property
    def span(self) -> TextSpan:
        """The span of the text without quotes and signs of Markdown."""
        start = self.start + len(self.data) - len(self.data.lstrip(_SIGNS))
        return start, max(start, self.start + len(self.data.rstrip(_SIGNS)))

    @property
    def text(self) -> str:
        return self.data.strip(_SIGNS).decode("utf-8", "replace")


# The maximum number of rows that are examined below one header, and of bytes between two lists.
MAX_ROWS, MAX_BETWEEN = 10_000, 400
_SIGNS = b" \t*_`\"'\\\r\n"
# A line between rows, also of a box.
_RULE = compiled(r"^(?:[ \t|:=+\-]|\xe2[\x94\x95][\x80-\xbf]){3,}\r?$")
# Texts that may have separators inside.
_QUOTED = compiled(r"\"[^\"\n]{0,300}\"|\\\|")
_TAG = compiled(r"<[^<>]{1,300}>|\r?\n")
_WORDS = compiled(r"[^ \t]+(?: [^ \t]+)*")
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
    if any(len(cell.data.strip()) > MAX_NAME or b":" in cell.data or b"=" in cell.data for cell in row):
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
        words = list(_WORDS.finditer(line)) if b"  " in line.strip() else []
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
