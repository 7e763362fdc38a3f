"""Full-text search in the checkpoints of all locations."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.exceptions import EmptyResultSet
from django.db import OperationalError, connection
from django.db.models import F, Max, QuerySet
from django.db.models.expressions import RawSQL

from viewer.messages.message import UserFacingError
from viewer.models import (
    Annotation,
    Checkpoint,
    Location,
    SearchedCheckpoint,
    SearchedLocation,
    SearchEntry,
)
from viewer.records.locations import is_indexed
from viewer.records.search_filters import Filters, Words, checkpoints_matching, entries_matching, words_in

# Full-text search with SQLite's FTS5.


# Seconds that one search may take, and how many instructions of SQLite pass between two checks of the clock.
MAX_SECONDS, INSTRUCTIONS = 3.0, 20_000
# What surrounds a match in an excerpt. Indexed texts hold no control characters.
BEGIN, END = "\x02", "\x03"
# Words of an excerpt.
EXCERPT_WORDS = 30
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

# Parts of a text, each with whether it matches.
Excerpt = tuple[tuple[str, bool], ...]


class SearchRefused(UserFacingError):
    """A search that has no results, with the reason."""


class SearchTooSlow(SearchRefused):
    """A search took too long. The message says what to do."""


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
    ends = time.monotonic() + MAX_SECONDS
    connection.connection.set_progress_handler(lambda: time.monotonic() > ends, INSTRUCTIONS)
    try:
        yield
    except OperationalError as error:
        if "interrupted" in str(error):
            raise SearchTooSlow("search.too_slow") from None
        raise
    finally:
        connection.connection.set_progress_handler(None, 0)


# Full-text search in the checkpoints of all locations. What a database provides is behind one interface.
#
# Rows of ``SearchEntry`` hold the texts. An index finds words in them and keeps itself up to date: SQLite's
# by
# triggers.


__all__ = ["Excerpt", "SearchIndex", "SearchRefused", "SearchTooSlow", "Words", "search_index"]


class SearchIndex(Protocol):
    """Finds words in the texts of entries."""

    def find(
        self, words: Words, entries: QuerySet[SearchEntry], limit: int, before: int | None = None
    ) -> Sequence[tuple[int, Excerpt]]:
        """The newest matches among ``entries``, at most ``limit``, as primary keys and excerpts.

        ``before`` is the last primary key of the page before. Raises SearchTooSlow.
        """

    def count(self, words: Words, entries: QuerySet[SearchEntry], limit: int) -> int:
        """The number of matches, at most ``limit``. Raises SearchTooSlow."""


def search_index() -> SearchIndex:
    """The index of this installation's database."""
    return SqliteIndex()


# Run a search: the matching texts, or without words the matching checkpoints.


RESULTS_A_PAGE = 30
# Matches are counted up to here.
MAX_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A checkpoint, and the text in it that matches, if words were searched for."""

    checkpoint: Checkpoint
    entry: SearchEntry | None = None
    excerpt: Excerpt = ()

    @property
    def address(self) -> str:
        """The address of the tab of the checkpoint that shows the text."""
        address = self.checkpoint.get_absolute_url()
        return f"{address}&{self.entry.query_string}" if self.entry and self.entry.query_string else address


@dataclass(frozen=True, slots=True)
class Results:
    """One page of results, newest first. ``before`` is where the next page begins, None on the last.

    ``count`` is that of all pages, at most ``MAX_COUNTED``.
    """

    results: Sequence[SearchResult] = ()
    count: int = 0
    before: int | None = None

    @property
    def is_more_than_counted(self) -> bool:
        return self.count >= MAX_COUNTED


def search(
    filters: Filters,
    locations: QuerySet[Location],
    before: int | None = None,
    most: int = RESULTS_A_PAGE,
) -> Results:
    """One page of what matches in these locations. Raises SearchRefused."""
    if filters.fault:
        raise SearchRefused(filters.fault)
    if words_in(filters.q):
        return _texts(filters, locations, before, most)
    if not filters or filters.q:
        return Results()
    rows = checkpoints_matching(filters).filter(location__in=locations).order_by("-pk")
    # One search counts and finds the page: without an index, it reads every row.
    newest = list(rows.values_list("pk", flat=True)[:MAX_COUNTED])
    pks = newest if before is None else rows.filter(pk__lt=before).values_list("pk", flat=True)
    chosen = list(pks[: most + 1])
    found = Checkpoint.objects.select_related("run", "location", "parent").in_bulk(chosen[:most])
    last = chosen[most - 1] if len(chosen) > most else None
    return Results([SearchResult(found[pk]) for pk in chosen[:most] if pk in found], len(newest), last)


def _texts(filters: Filters, locations: QuerySet[Location], before: int | None, most: int) -> Results:
    index, words = search_index(), words_in(filters.q)
    entries = entries_matching(filters).filter(location__in=_searchable(locations))
    matches = index.find(words, entries, most + 1, before)
    is_whole = before is None and len(matches) <= most
    count = len(matches) if is_whole else index.count(words, entries, MAX_COUNTED)
    last = matches[most - 1][0] if len(matches) > most else None
    chosen = dict(matches[:most])
    rows = SearchEntry.objects.in_bulk(list(chosen))
    related = Checkpoint.objects.select_related("run", "location", "parent")
    checkpoints = related.in_bulk([row.checkpoint_id for row in rows.values()])
    results = [
        SearchResult(checkpoint, entry, excerpt)
        for pk, excerpt in chosen.items()
        if (entry := rows.get(pk)) and (checkpoint := checkpoints.get(entry.checkpoint_id))
    ]
    return Results(results, count, last)


def _searchable(locations: QuerySet[Location]) -> list[int]:
    """Those locations whose entries hold no secret that has become known since."""
    searched = SearchedLocation.objects.filter(
        location__in=locations, secrets_digest=F("location__secrets_digest")
    )
    return list(searched.values_list("pk", flat=True))


def mark_of(location: Location) -> str:
    """A text that differs if a location may have something new."""
    newest = location.checkpoints.order_by("-pk").values_list("pk", flat=True).first()
    return f"{location.revision}:{newest or 0} {notes_mark(location)}"


def progress() -> tuple[int, int] | None:
    """How many checkpoints with stored copies are indexed, and how many there are; None if all are."""
    searched = dict(SearchedLocation.objects.values_list("location", "mark"))
    behind = [one for one in Location.objects.all() if searched.get(one.pk) != mark_of(one)]
    if not behind:
        return None
    copied = [one.pk for one in behind if not is_indexed(one)]
    done = SearchedCheckpoint.objects.filter(location__in=copied).count()
    readable = Checkpoint.objects.exclude(state=Checkpoint.State.NO_COPY)
    return done, readable.filter(location__in=copied).count()


def notes_mark(location: Location) -> str:
    """A text that differs if a person has written something about the location since."""
    notes = Annotation.objects.filter(location_uid=location.uid)
    newest = notes.aggregate(newest=Max("changed_at"))["newest"]
    return f"{notes.count()}:{newest.timestamp():.6f}" if newest else ""
