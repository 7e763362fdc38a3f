"""Full-text search in the checkpoints of all locations."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery

from viewer.models import (
    Annotation,
    Checkpoint,
    Location,
    SearchedCheckpoint,
    SearchedLocation,
    SearchEntry,
)
from viewer.records.full_text import Excerpt, SearchIndex, SearchRefused, SearchTooSlow, search_index
from viewer.records.locations import is_indexed
from viewer.records.search_filters import Filters, Words, checkpoints_matching, entries_matching, words_in

__all__ = ["Excerpt", "SearchIndex", "SearchRefused", "SearchTooSlow", "Words", "search_index"]


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
