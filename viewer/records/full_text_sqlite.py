"""Full-text search with SQLite's FTS5, which triggers keep up to date (viewer/migrations/0001_initial.py)."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import OperationalError, connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from viewer.models import SearchEntry
from viewer.records import full_text
from viewer.records.full_text import EXCERPT_WORDS, Excerpt, SearchTooSlow
from viewer.records.search_filters import Words

# How many instructions of SQLite pass between two checks of the clock.
INSTRUCTIONS = 20_000
# What surrounds a match in an excerpt. Indexed texts hold no control characters.
BEGIN, END = "\x02", "\x03"
_MATCHED = re.compile(f"{BEGIN}([^{END}]*){END}")

_FIND = """
SELECT viewer_searchtext.rowid, snippet(viewer_searchtext, 0, %s, %s, '…', %s)
FROM viewer_searchtext
WHERE viewer_searchtext MATCH %s AND viewer_searchtext.rowid < %s AND EXISTS ({entries})
ORDER BY viewer_searchtext.rowid DESC LIMIT %s
"""
_COUNT = """
SELECT COUNT(*) FROM (
    SELECT 1 FROM viewer_searchtext WHERE viewer_searchtext MATCH %s AND EXISTS ({entries}) LIMIT %s
)
"""
_HIGHEST = 2**63 - 1


class SqliteIndex:
    """``SearchIndex`` in the application's own database (viewer/migrations/0001_initial.py)."""

    def find(
        self, words: Words, entries: QuerySet[SearchEntry], limit: int, before: int | None = None
    ) -> list[tuple[int, Excerpt]]:
        if not words:
            return []
        highest = _HIGHEST if before is None else before
        rows = _rows(_FIND, [BEGIN, END, EXCERPT_WORDS, expression(words), highest], entries, limit)
        return [(pk, parts(excerpt)) for pk, excerpt in rows]

    def count(self, words: Words, entries: QuerySet[SearchEntry], limit: int) -> int:
        rows = _rows(_COUNT, [expression(words)], entries, limit) if words else []
        return int(rows[0][0]) if rows else 0


def expression(words: Words) -> str:
    """The words as a query of FTS5. Each is quoted, so that none is an operator."""
    wanted = [_quoted(text) for text in words.all_of]
    wanted += [f"{_quoted(words.prefix)}*"] if words.prefix else []
    unwanted = "".join(f" NOT {_quoted(text)}" for text in words.none_of)
    return f"({' AND '.join(wanted)}){unwanted}"


def parts(excerpt: str) -> Excerpt:
    """The parts of an excerpt, each with whether it matches."""
    split = _MATCHED.split(excerpt)
    return tuple((text, bool(number % 2)) for number, text in enumerate(split) if text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _rows(statement: str, values: Sequence[Any], entries: QuerySet[SearchEntry], limit: int) -> list[Any]:
    """The rows of a statement about the matching texts of these entries. Raises SearchTooSlow."""
    matched = entries.filter(pk=RawSQL("viewer_searchtext.rowid", ())).order_by()
    try:
        subquery, of_entries = matched.values("pk").query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor, _time_limit():
        cursor.execute(statement.format(entries=subquery), [*values, *of_entries, limit])
        rows: list[Any] = cursor.fetchall()
        return rows


@contextmanager
def _time_limit() -> Iterator[None]:
    """Interrupt statements within the block after a while."""
    ends = time.monotonic() + full_text.MAX_SECONDS
    connection.connection.set_progress_handler(lambda: time.monotonic() > ends, INSTRUCTIONS)
    try:
        yield
    except OperationalError as error:
        if "interrupted" in str(error):
            raise SearchTooSlow("search.too_slow") from None
        raise
    finally:
        connection.connection.set_progress_handler(None, 0)
