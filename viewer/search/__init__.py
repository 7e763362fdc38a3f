"""Full-text search in the checkpoints of all locations. What a database provides is behind one interface.

Rows of ``SearchEntry`` hold the texts. An index finds words in them and keeps itself up to date: SQLite's by
triggers.
"""

from collections.abc import Sequence
from typing import Protocol

from django.db.models import QuerySet

from viewer.models import SearchEntry
from viewer.search.sqlite import Excerpt, SearchRefused, SearchTooSlow, SqliteIndex
from viewer.search.words import Words

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
