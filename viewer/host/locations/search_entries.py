"""The entries of the search index: texts of checkpoints and of what people wrote, stored and removed."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

from django.db import connection, transaction

from viewer.engines import engine_of
from viewer.engines.contents import SearchText, TextKind
from viewer.models import Annotation, Checkpoint, Location, SearchedCheckpoint, SearchEntry, SearchFacet
from viewer.records.bodies import bodies_of

# The entries of one checkpoint, from what its engine decodes.


# Characters of a text, and texts of a checkpoint, that are indexed.
MAX_TEXT, MAX_TEXTS = 20_000, 5_000
# Texts of these kinds are different ones if they belong to different units.
_OF_UNITS = (TextKind.OUTPUT, TextKind.PROMPT)
# Control characters, and what UTF-8 cannot hold.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A text as rows store it. Texts with the same ``digest`` are one entry of their run."""

    digest: bytes
    kind: str
    query_string: str
    unit: str
    agent: str
    model: str
    text: str


def entries_of(location: Location, body: dict[str, Any]) -> list[NewEntry]:
    """The entries of a redacted checkpoint, each once."""
    engine = engine_of(location)
    texts = engine.search_texts(engine.contents_of(body))
    return list({entry.digest: entry for entry in reversed(list(_distinct_entries(texts)))}.values())[::-1]


def _distinct_entries(texts: Iterator[SearchText]) -> Iterator[NewEntry]:
    for found in islice(texts, MAX_TEXTS):
        text = clean(found.text[:MAX_TEXT])
        if not text:
            continue
        unit, agent = clean(found.unit)[:300], clean(found.agent)[:300]
        owner = f"{unit}\0{agent}" if found.kind in _OF_UNITS else ""
        digest = blake2b(f"{found.kind}\0{owner}\0{text}".encode(), digest_size=16).digest()
        model = clean(found.model)[:200]
        yield NewEntry(digest, found.kind.value, found.query_string[:100], unit, agent, model, text)


def clean(text: str) -> str:
    """The text without control characters, which mark matches, and without what UTF-8 cannot hold."""
    return _HALF.sub("?", _CONTROL.sub(" ", text)).strip()


# Store and remove entries, in transactions that no other writer has to wait for long.


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


# Index what people wrote about runs, branches and checkpoints: names, labels and notes.


def index_notes(location: Location) -> None:
    """Make the entries of a location's annotations equal to them."""
    wanted = {
        bytes(entry.digest): entry
        for annotation in Annotation.objects.filter(location_uid=location.uid)
        if (entry := _entry(location, annotation)) is not None
    }
    with transaction.atomic():
        stored = SearchEntry.objects.filter(location=location, kind=SearchEntry.Kind.NOTE)
        known = {bytes(digest): pk for pk, digest in stored.values_list("pk", "digest")}
        SearchEntry.objects.filter(pk__in=[known[one] for one in known.keys() - wanted.keys()]).delete()
        SearchEntry.objects.bulk_create(wanted[one] for one in wanted.keys() - known.keys())


def _entry(location: Location, annotation: Annotation) -> SearchEntry | None:
    """The entry of an annotation, at its checkpoint or the newest of its run or branch. None without one."""
    parts = (annotation.name, ", ".join(annotation.labels), annotation.note)
    text = clean("\n".join(part for part in parts if part)[:MAX_TEXT])
    where = {
        "checkpoint_id": annotation.checkpoint_id,
        "run__key": annotation.run_key,
        "branch": annotation.branch,
    }
    found = Checkpoint.objects.filter(location=location, **{name: one for name, one in where.items() if one})
    checkpoint = found.order_by("-row", "pk").first()
    if checkpoint is None or not text:
        return None
    name = f"note\0{annotation.pk}\0{checkpoint.pk}\0{text}"
    return SearchEntry(
        location=location,
        run_id=checkpoint.run_id,
        checkpoint=checkpoint,
        digest=blake2b(name.encode(), digest_size=16).digest(),
        kind=SearchEntry.Kind.NOTE,
        text=text,
    )
