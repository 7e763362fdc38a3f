"""Store and remove entries, in transactions that no other writer has to wait for long."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection, transaction

from viewer.importing import bodies_of
from viewer.models import Checkpoint, Location, SearchedCheckpoint, SearchEntry, SearchFacet
from viewer.search.indexing.texts import NewEntry, entries_of

logger = logging.getLogger(__name__)

# Rows that one transaction removes.
MAX_REMOVED = 500
_STORE = """
INSERT INTO viewer_searchentry
    (location_id, run_id, checkpoint_id, digest, kind, query_string, unit, agent, model, text, count)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (run_id, digest) DO UPDATE SET count = viewer_searchentry.count + excluded.count
"""
# The facets that entries and checkpoints have, by the column that holds them.
ENTRY_FACETS, CHECKPOINT_FACETS = ("agent", "unit", "model"), ("trigger", "engine_version")


class Superseded(Exception):
    """What was read may hold a secret that has become known since, or was deleted, or the location was."""


def store(location: Location, checkpoints: Sequence[Checkpoint]) -> int:
    """Index checkpoints of a location, oldest first. Returns how many could be read. Raises Superseded."""
    found = dict[tuple[int, bytes], tuple[Checkpoint, NewEntry]]()
    counts = Counter[tuple[int, bytes]]()
    read = list[Checkpoint]()
    for checkpoint, body in bodies_of(location, checkpoints):
        for entry in _entries(location, checkpoint, body):
            found.setdefault((checkpoint.run_id, entry.digest), (checkpoint, entry))
            counts[checkpoint.run_id, entry.digest] += 1
        read.append(checkpoint)
    rows = [
        (
            *(location.pk, checkpoint.run_id, checkpoint.pk, entry.digest, entry.kind, entry.query_string),
            *(entry.unit, entry.agent, entry.model, entry.text, counts[key]),
        )
        for key, (checkpoint, entry) in found.items()
    ]
    with transaction.atomic():
        if not Location.objects.filter(pk=location.pk, secrets_digest=location.secrets_digest).exists():
            raise Superseded
        deleted = Checkpoint.objects.filter(pk__in=[one.pk for one in read], state=Checkpoint.State.NO_COPY)
        if deleted.exists():
            raise Superseded
        with connection.cursor() as cursor:
            cursor.executemany(_STORE, rows)
        _note(location, read)
        _store_facets(location, read, [entry for _checkpoint, entry in found.values()])
    return len(read)


def _entries(location: Location, checkpoint: Checkpoint, body: dict[str, Any]) -> list[NewEntry]:
    try:
        return entries_of(location, body)
    except Exception:
        # Whatever one checkpoint holds, the others are indexed.
        logger.exception("indexing checkpoint %s", checkpoint.pk)
        return []


def _note(location: Location, checkpoints: Sequence[Checkpoint]) -> None:
    """Record which checkpoints are indexed."""
    SearchedCheckpoint.objects.bulk_create(
        SearchedCheckpoint(
            checkpoint=checkpoint,
            location=location,
            run_id=checkpoint.run_id,
            fingerprint=checkpoint.fingerprint,
        )
        for checkpoint in checkpoints
    )


def _store_facets(location: Location, checkpoints: Sequence[Checkpoint], entries: Sequence[NewEntry]) -> None:
    found = {(name, getattr(entry, name)) for entry in entries for name in ENTRY_FACETS}
    found |= {(name, getattr(row, name)) for row in checkpoints for name in CHECKPOINT_FACETS}
    facets = [SearchFacet(location=location, name=name, value=value) for name, value in found if value]
    SearchFacet.objects.bulk_create(facets, ignore_conflicts=True)


def remove_run(run: int) -> Iterator[None]:
    """Remove the entries that were indexed for a run, in steps. Its checkpoints are due again at the end."""
    yield from _remove(SearchEntry, run=run)
    yield from _remove(SearchedCheckpoint, run=run)


def remove_location(location: int) -> Iterator[None]:
    """Remove everything that was indexed for a location, in steps."""
    yield from _remove(SearchEntry, location=location)
    yield from _remove(SearchedCheckpoint, location=location)
    SearchFacet.objects.filter(location=location).delete()


def remove_checkpoints(location: int, checkpoints: Sequence[int]) -> None:
    """Remove everything that was indexed for the runs of these checkpoints. The others are due again."""
    runs = set[int]()
    for at in range(0, len(checkpoints), MAX_REMOVED):
        some = checkpoints[at : at + MAX_REMOVED]
        runs |= set(SearchedCheckpoint.objects.filter(pk__in=some).values_list("run_id", flat=True))
        runs |= set(SearchEntry.objects.filter(checkpoint__in=some).values_list("run_id", flat=True))
    for run in sorted(runs):
        for _step in remove_run(run):
            pass
    found = SearchEntry.objects.filter(location=location).order_by()
    for name in ENTRY_FACETS:
        used = found.values_list(name, flat=True).distinct()
        SearchFacet.objects.filter(location=location, name=name).exclude(value__in=list(used)).delete()


def _remove(model: type[SearchEntry] | type[SearchedCheckpoint], **where: int) -> Iterator[None]:
    rows = model._default_manager.filter(**where).order_by()
    while pks := list(rows.values_list("pk", flat=True)[:MAX_REMOVED]):
        model._default_manager.filter(pk__in=pks).delete()
        yield
