"""Full-text search in the checkpoints of all locations."""

import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import OperationalError, connection, transaction
from django.db.models import BooleanField, Count, Exists, F, Max, OuterRef, QuerySet, Subquery
from django.db.models.expressions import RawSQL

from viewer import postgresql
from viewer.messages.message import UserFacingError
from viewer.models import Annotation, Checkpoint, Location, SearchedCheckpoint, SearchedLocation, SearchEntry
from viewer.records.locations import is_indexed
from viewer.records.search_filters import Filters, Words, checkpoints_matching, entries_matching, words_in

# What finds words in texts, behind one interface: SQLite's FTS5, or PostgreSQL's ``tsvector``.
#
# Rows of ``SearchEntry`` hold the texts. An index finds words in them, and the database keeps it up to date.
# Words are letters and digits; case, accents and everything between words make no difference.


# Seconds that one search may take.
MAX_SECONDS = 3.0
# Words of an excerpt.
EXCERPT_WORDS = 30
# Parts of a text, each with whether it matches.
Excerpt = tuple[tuple[str, bool], ...]
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

# The newest texts that PostgreSQL reads before it uses the index.
NEWEST = 400
# The SQLSTATE of a statement that the server has ended.
CANCELLED = "57014"
# The words of an excerpt before the first match.
WORDS_BEFORE = 10
_WORD = re.compile(r"[^\W_]+")
_PHRASE = "phraseto_tsquery('simple', forkline_words(%s))"
# A text without words has no last one.
_PREFIX = f"(nullif({_PHRASE}::text, '') || ':*')::tsquery"


class SearchRefused(UserFacingError):
    """A search that has no results, with the reason."""


class SearchTooSlow(SearchRefused):
    """A search took too long. The message says what to do."""


def search_index() -> "SqliteIndex | PostgresqlIndex":
    """The index of this installation's database."""
    return PostgresqlIndex() if postgresql.is_used() else SqliteIndex()


class SqliteIndex:
    """SQLite's FTS5. Triggers keep it up to date (viewer/migrations/0001_initial.py)."""

    def find(
        self, words: Words, entries: QuerySet[SearchEntry], limit: int, before: int | None = None
    ) -> list[tuple[int, Excerpt]]:
        """The newest matches among ``entries``, at most ``limit``, as primary keys and excerpts.

        ``before`` is the last primary key of the page before. Raises SearchTooSlow.
        """
        if not words:
            return []
        highest = _HIGHEST if before is None else before
        rows = _rows(_FIND, [BEGIN, END, EXCERPT_WORDS, expression(words), highest], entries, limit)
        return [(pk, parts(excerpt)) for pk, excerpt in rows]

    def count(self, words: Words, entries: QuerySet[SearchEntry], limit: int) -> int:
        """The number of matches, at most ``limit``. Raises SearchTooSlow."""
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
    with connection.cursor() as cursor, _time_limit_of_sqlite():
        cursor.execute(statement.format(entries=subquery), [*values, *of_entries, limit])
        rows: list[Any] = cursor.fetchall()
        return rows


@contextmanager
def _time_limit_of_sqlite() -> Iterator[None]:
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


class PostgresqlIndex:
    """PostgreSQL's ``tsvector`` (viewer/migrations/0002_version_0_2_0.py), with the methods of SqliteIndex.

    The index is one of an expression, so the words are stored nowhere else. ``forkline_words`` makes the same
    words of a text as SQLite's tokenizer, whatever the server's language is.
    """

    def find(
        self, words: Words, entries: QuerySet[SearchEntry], limit: int, before: int | None = None
    ) -> list[tuple[int, Excerpt]]:
        if not words:
            return []
        matches = matching(words, entries)
        if before is not None:
            matches = matches.filter(pk__lt=before)
        rows = matches.values_list("pk", "text")
        with _time_limit_of_server():
            first = _first_of_newest(before)
            found = list(rows.filter(pk__gte=first).order_by("-pk")[:limit])
            if first and len(found) < limit:
                others = rows.filter(pk__lt=first).order_by((F("pk") + 0).desc())
                found += others[: limit - len(found)]
        return [(pk, excerpt_of(text, words)) for pk, text in found]

    def count(self, words: Words, entries: QuerySet[SearchEntry], limit: int) -> int:
        if not words:
            return 0
        matches = matching(words, entries)
        with _time_limit_of_server():
            first = _first_of_newest()
            count = len(matches.filter(pk__gte=first).order_by("-pk").values_list("pk")[:limit])
            if first and count < limit:
                count += matches.filter(pk__lt=first).order_by()[: limit - count].count()
        return count


def _first_of_newest(before: int | None = None) -> int:
    """Return the primary key from which on texts are read before the index is used; 0 if all are.

    The server cannot know where matches are: it would read every newer text to find rare ones, or collect
    and sort millions of a common word. So the newest texts are read, and the index finds the rest.
    """
    newest = SearchEntry.objects.order_by("-pk")
    if before is not None:
        newest = newest.filter(pk__lt=before)
    (first,) = newest.values_list("pk", flat=True)[NEWEST : NEWEST + 1] or (0,)
    return first


def matching(words: Words, entries: QuerySet[SearchEntry]) -> QuerySet[SearchEntry]:
    """Those of these entries that have the words."""
    wanted = [_PHRASE for _text in words.all_of] + ([_PREFIX] if words.prefix else [])
    query = " && ".join(wanted) + "".join(f" && !!{_PHRASE}" for _text in words.none_of)
    texts = [*words.all_of, *([words.prefix] if words.prefix else []), *words.none_of]
    statement = f"to_tsvector('simple', forkline_words(viewer_searchentry.text)) @@ ({query})"
    matches = RawSQL(statement, texts, output_field=BooleanField())  # noqa: S611
    return SearchEntry.objects.filter(Exists(entries.filter(pk=OuterRef("pk")).order_by()), matches)


@contextmanager
def _time_limit_of_server() -> Iterator[None]:
    """Have the server end statements within the block after a while."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            milliseconds = max(1, int(MAX_SECONDS * 1000))
            cursor.execute(f"SET LOCAL statement_timeout = {milliseconds}")
            yield
            cursor.execute("SET LOCAL statement_timeout = DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == CANCELLED:
            raise SearchTooSlow("search.too_slow") from None
        raise


def excerpt_of(text: str, words: Words) -> Excerpt:
    """The text around the first match, in parts, each with whether it matches."""
    wanted = [_folded_words(one) for one in words.all_of]
    prefix = _folded_words(words.prefix)
    found = list(_WORD.finditer(text))
    folded = [_folded(one[0]) for one in found]
    matched, inner = set[int](), set[int]()
    for at in range(len(folded)):
        lengths = [len(phrase) for phrase in wanted if phrase and folded[at : at + len(phrase)] == phrase]
        lengths += [len(prefix)] if prefix and _begins(folded[at : at + len(prefix)], prefix) else []
        for length in lengths:
            matched.update(range(at, at + length))
            inner.update(range(at + 1, at + length))
    first = max(0, min(matched, default=0) - WORDS_BEFORE)
    shown = range(first, min(first + EXCERPT_WORDS, len(found)))
    parts: list[tuple[str, bool]] = []
    end = found[first].start() if first and found else 0
    for at in shown:
        between, word = text[end : found[at].start()], found[at][0]
        # Words of one phrase are one part.
        parts += [(f"{between}{word}", True)] if at in inner else [(between, False), (word, at in matched)]
        end = found[at].end()
    rest = "…" if shown and shown[-1] + 1 < len(found) else text[end:]
    return _joined([("…" if first else "", False), *parts, (rest, False)])


def _begins(words: list[str], prefix: list[str]) -> bool:
    return len(words) == len(prefix) and words[:-1] == prefix[:-1] and words[-1].startswith(prefix[-1])


def _joined(parts: list[tuple[str, bool]]) -> Excerpt:
    """The parts without empty ones, and neighbours of one kind as one part."""
    joined: list[tuple[str, bool]] = []
    for text, is_match in parts:
        if joined and joined[-1][1] == is_match:
            joined[-1] = joined[-1][0] + text, is_match
        elif text:
            joined.append((text, is_match))
    return tuple(joined)


def _folded_words(text: str) -> list[str]:
    return [_folded(one[0]) for one in islice(_WORD.finditer(text), EXCERPT_WORDS)]


def _folded(word: str) -> str:
    """The word without case and accents."""
    if word.isascii():
        return word.lower()
    plain = "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))
    return unicodedata.normalize("NFC", plain).lower()


# Run a search: the matching texts, or without words the matching checkpoints.


RESULTS_A_PAGE = 30
# Matches are counted up to here: ten pages.
MAX_COUNTED = 300


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


def search(filters: Filters, before: int | None = None, most: int = RESULTS_A_PAGE) -> Results:
    """One page of what matches. Raises SearchRefused."""
    if filters.fault:
        raise SearchRefused(filters.fault)
    if words_in(filters.q):
        return _texts(filters, before, most)
    if not filters or filters.q:
        return Results()
    rows = checkpoints_matching(filters).order_by("-pk")
    if filters.location:
        rows = rows.filter(location__in=Location.objects.matching(filters.location))
    # One search counts and finds the page: without an index, it reads every row.
    newest = list(rows.values_list("pk", flat=True)[:MAX_COUNTED])
    pks = newest if before is None else rows.filter(pk__lt=before).values_list("pk", flat=True)
    chosen = list(pks[: most + 1])
    found = Checkpoint.objects.select_related("run", "location", "parent").in_bulk(chosen[:most])
    last = chosen[most - 1] if len(chosen) > most else None
    return Results([SearchResult(found[pk]) for pk in chosen[:most] if pk in found], len(newest), last)


def _texts(filters: Filters, before: int | None, most: int) -> Results:
    index, words = search_index(), words_in(filters.q)
    entries = _searchable(entries_matching(filters), filters.location)
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


def _searchable(entries: QuerySet[SearchEntry], location: str) -> QuerySet[SearchEntry]:
    """Those of the filter's location, without those that may hold a secret that has become known since."""
    current = SearchedLocation.objects.filter(secrets_digest=F("location__secrets_digest")).values("pk")
    if location:
        chosen = Location.objects.matching(location).filter(pk__in=current)
        return entries.filter(location__in=list(chosen.values_list("pk", flat=True)))
    # There are usually none, and the server compares each match with a list of all others.
    hidden = list(Location.objects.exclude(pk__in=current).values_list("pk", flat=True))
    return entries.exclude(location__in=hidden) if hidden else entries


def marks_of(locations: QuerySet[Location]) -> dict[int, str]:
    """For each location, a text that differs if it may have something new, or a person has written a note."""
    written = Annotation.objects.filter(location_uid__in=locations.order_by().values("uid")).order_by()
    notes = {
        uid: f"{count}:{newest.timestamp():.6f}"
        for uid, count, newest in written.values_list("location_uid").annotate(Count("pk"), Max("changed_at"))
    }
    newest = Checkpoint.objects.filter(location=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    rows = locations.annotate(newest=Subquery(newest)).values_list("pk", "uid", "revision", "newest")
    return {pk: f"{revision}:{last or 0} {notes.get(uid, '')}" for pk, uid, revision, last in rows}


def progress() -> tuple[int, int] | None:
    """How many checkpoints with stored copies are indexed, and how many there are; None if all are."""
    searched = dict(SearchedLocation.objects.values_list("location", "mark"))
    marks = marks_of(Location.objects.all())
    behind = [pk for pk, mark in marks.items() if searched.get(pk) != mark]
    if not behind:
        return None
    copied = [one.pk for one in Location.objects.filter(pk__in=behind) if not is_indexed(one)]
    done = SearchedCheckpoint.objects.filter(location__in=copied).count()
    readable = Checkpoint.objects.exclude(state=Checkpoint.State.NO_COPY)
    return done, readable.filter(location__in=copied).count()
