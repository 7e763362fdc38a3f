"""Index everything, and search."""

from viewer.host.locations.search_index import index_some
from viewer.models import SearchEntry
from viewer.records.search import search_index
from viewer.records.search_filters import words_in


def index_all() -> None:
    while index_some(60):
        pass


def found(query: str) -> list[SearchEntry]:
    """The entries with these words, newest first."""
    matches = search_index().find(words_in(query), SearchEntry.objects.all(), 1000)
    entries = SearchEntry.objects.select_related("checkpoint").in_bulk([pk for pk, _excerpt in matches])
    return [entries[pk] for pk, _excerpt in matches]
