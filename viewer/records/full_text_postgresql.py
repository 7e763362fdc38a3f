"""Full-text search with PostgreSQL's ``tsvector`` (viewer/migrations/0005_search_on_postgresql.py).

The index is one of an expression, so the words are stored nowhere else. ``forkline_words`` makes the same
words of a text as SQLite's tokenizer, whatever the server's language is.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from django.db import OperationalError, connection, transaction
from django.db.models import BooleanField, Exists, OuterRef, QuerySet
from django.db.models.expressions import RawSQL

from viewer.models import SearchEntry
from viewer.records import full_text
from viewer.records.full_text import EXCERPT_WORDS, Excerpt, SearchTooSlow
from viewer.records.search_filters import Words

CANCELLED = "57014"
# The words of an excerpt before the first match.
WORDS_BEFORE = 10
_WORD = re.compile(r"[^\W_]+")
_PHRASE = "phraseto_tsquery('simple', forkline_words(%s))"
# A text without words has no last one.
_PREFIX = f"(nullif({_PHRASE}::text, '') || ':*')::tsquery"


class PostgresqlIndex:
    """``SearchIndex`` in the application's own database."""

    def find(
        self, words: Words, entries: QuerySet[SearchEntry], limit: int, before: int | None = None
    ) -> list[tuple[int, Excerpt]]:
        if not words:
            return []
        rows = matching(words, entries).order_by("-pk")
        if before is not None:
            rows = rows.filter(pk__lt=before)
        with _time_limit():
            found = list(rows.values_list("pk", "text")[:limit])
        return [(pk, excerpt_of(text, words)) for pk, text in found]

    def count(self, words: Words, entries: QuerySet[SearchEntry], limit: int) -> int:
        with _time_limit():
            return matching(words, entries).order_by()[:limit].count() if words else 0


def matching(words: Words, entries: QuerySet[SearchEntry]) -> QuerySet[SearchEntry]:
    """Those of these entries that have the words."""
    wanted = [_PHRASE for _text in words.all_of] + ([_PREFIX] if words.prefix else [])
    query = " && ".join(wanted) + "".join(f" && !!{_PHRASE}" for _text in words.none_of)
    texts = [*words.all_of, *([words.prefix] if words.prefix else []), *words.none_of]
    statement = f"to_tsvector('simple', forkline_words(viewer_searchentry.text)) @@ ({query})"
    matches = RawSQL(statement, texts, output_field=BooleanField())  # noqa: S611
    return SearchEntry.objects.filter(Exists(entries.filter(pk=OuterRef("pk")).order_by()), matches)


@contextmanager
def _time_limit() -> Iterator[None]:
    """Have the server end statements within the block after a while."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            milliseconds = max(1, int(full_text.MAX_SECONDS * 1000))
            cursor.execute(f"SET LOCAL statement_timeout = {milliseconds}")
            yield
            cursor.execute("SET LOCAL statement_timeout = DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == CANCELLED:
            raise SearchTooSlow("search.too_slow") from None
        raise


# The part of a text that is shown: the first match, and the words around it.


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
