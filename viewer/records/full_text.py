"""What finds words in texts, behind one interface.

Rows of ``SearchEntry`` hold the texts. An index finds words in them, and the database keeps it up to date.
Words are letters and digits; case, accents and everything between words make no difference.
"""

from collections.abc import Sequence
from typing import Protocol

from django.db.models import QuerySet

from viewer.messages.message import UserFacingError
from viewer.models import SearchEntry
from viewer.records.search_filters import Words

# Seconds that one search may take.
MAX_SECONDS = 3.0
# Words of an excerpt.
EXCERPT_WORDS = 30
# Parts of a text, each with whether it matches.
Excerpt = tuple[tuple[str, bool], ...]


class SearchRefused(UserFacingError):
    """A search that has no results, with the reason."""


class SearchTooSlow(SearchRefused):
    """A search took too long. The message says what to do."""


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
