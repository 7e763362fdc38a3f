"""Index the texts of checkpoints in the background, incrementally and in bounded steps."""

import logging
import re
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef

from viewer.data_folder.changes import in_background
from viewer.data_folder.locks import row_lock
from viewer.engines import engine_of
from viewer.engines.contents import SearchText, TextKind
from viewer.host.locations.indexing import import_run
from viewer.models import (
    Annotation,
    Checkpoint,
    Location,
    Run,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
    SearchFacet,
)
from viewer.records.bodies import bodies_of
from viewer.records.bucket import BucketAway
from viewer.records.indexed_runs import called_runs
from viewer.records.locations import is_indexed
from viewer.records.search import marks_of

# Index runs whose bodies are only at the source: the newest checkpoints of the newest runs.


# The newest runs of a location, the newest checkpoints of each, and the runs that it called.
MAX_RUNS, MAX_CHECKPOINTS_OF_RUN, MAX_CALLED = 500, 50, 50
# A longer run is indexed only after somebody has opened it: listing its checkpoints would take long.
MAX_LENGTH = 5_000


def index_threads(location: Location) -> Iterator[None]:
    """Index the newest runs that have changed, newest first. Raises Superseded."""
    searched = dict(SearchedRun.objects.filter(run__location=location).values_list("run", "mark"))
    for run in location.runs.top_level().select_related("location")[:MAX_RUNS]:
        mark = f"{run.head} {run.status}"[:400]
        if searched.get(run.pk) == mark or not _is_listed(run):
            continue
        could_read = True
        for pk in [run.pk, *called_runs([run.pk])[:MAX_CALLED]]:
            due = yield from _due_in_run(pk)
            could_read &= store(location, due) == len(due)
            yield
        if could_read:
            SearchedRun.objects.update_or_create(run=run, defaults={"mark": mark})


def _is_listed(run: Run) -> bool:
    """Whether the checkpoints of a run are rows. Lists them unless there are too many."""
    if run.checkpoint_count > MAX_LENGTH and not run.indexed_fingerprint:
        return False
    # If the source is gone, the stored copies are indexed.
    return import_run(run).read_error is None or bool(run.copies_digest)


def _due_in_run(run: int) -> Generator[None, None, list[Checkpoint]]:
    """The newest checkpoints of a run that are not indexed, oldest first.

    A checkpoint changes with what is written after it. Then its run is indexed again.
    """
    newest = list(
        Checkpoint.objects.filter(run=run)
        .select_related("stored_copy")
        .order_by("-row")[:MAX_CHECKPOINTS_OF_RUN]
    )
    searched = SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in newest])
    known = dict(searched.values_list("pk", "fingerprint"))
    if any(known.get(row.pk, row.fingerprint) != row.fingerprint for row in newest):
        yield from remove_run(run)
        known = {}
    return [row for row in reversed(newest) if row.pk not in known]


# Index what is new, in steps. Each step stores what it has done, so that any process can go on.


# Checkpoints of one step, and their bytes.
MAX_CHECKPOINTS, MAX_BYTES = 50, 8 * 1024 * 1024


def index_some(seconds: float) -> bool:
    """Index for about this many ``seconds``. Returns whether there may be more to do.

    Does nothing if another process is indexing, or while an import is under way: that comes first.
    """
    if Location.objects.here().filter(import_state=Location.ImportState.REQUESTED).exists():
        return False
    ends = time.monotonic() + seconds
    with row_lock("search") as is_ours:
        if not is_ours:
            return False
        return any(time.monotonic() > ends for _step in _steps())


def _steps() -> Iterator[None]:
    yield from _remove_orphans()
    rows = SearchedLocation.objects.filter(secrets_digest=F("location__secrets_digest"))
    searched, marks = dict(rows.values_list("pk", "mark")), marks_of(Location.objects.here())
    behind = [pk for pk, mark in marks.items() if searched.get(pk) != mark]
    for location in Location.objects.filter(pk__in=behind).order_by("pk"):
        try:
            yield from _steps_of(location)
        except (Superseded, Location.DoesNotExist, BucketAway):
            # The next call begins again with what there is then.
            yield


def _steps_of(location: Location) -> Iterator[None]:
    searched, _ = SearchedLocation.objects.get_or_create(
        location=location, defaults={"secrets_digest": location.secrets_digest}
    )
    if searched.secrets_digest != location.secrets_digest:
        yield from _begin_again(location, searched)
    # Listing the checkpoints of a run is a change as well.
    while searched.mark != (mark := marks_of(Location.objects.filter(pk=location.pk)).get(location.pk, "")):
        yield from index_threads(location) if is_indexed(location) else _index_copies(location)
        if not (yield from _remove_gone(location)):
            index_notes(location)
            SearchedLocation.objects.filter(pk=location.pk).update(mark=mark)
            searched.mark = mark
        location.refresh_from_db(fields=["revision"])


def _begin_again(location: Location, searched: SearchedLocation) -> Iterator[None]:
    """Remove what may hold a secret that has become known since."""
    yield from remove_location(location.pk)
    SearchedRun.objects.filter(run__location=location).delete()
    searched.secrets_digest, searched.mark = location.secrets_digest, ""
    searched.save()


def _index_copies(location: Location) -> Iterator[None]:
    """Index the checkpoints that have stored copies, in the order in which they were imported."""
    last = 0
    while due := _due(location, last):
        changed = SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in due]).first()
        if changed is not None:
            yield from remove_run(changed.run_id)
            last = 0
            continue
        store(location, due)
        last = due[-1].pk
        yield


def _due(location: Location, after: int) -> list[Checkpoint]:
    """The first checkpoints after a primary key that are not indexed as they are now."""
    searched = SearchedCheckpoint.objects.filter(pk=OuterRef("pk"), fingerprint=OuterRef("fingerprint"))
    rows = Checkpoint.objects.filter(~Exists(searched), location=location, pk__gt=after)
    due = rows.exclude(state=Checkpoint.State.NO_COPY).select_related("stored_copy").order_by("pk")
    found, size = list[Checkpoint](), 0
    for row in due[:MAX_CHECKPOINTS]:
        size += row.size
        if found and size > MAX_BYTES:
            break
        found.append(row)
    return found


def _remove_gone(location: Location) -> Generator[None, None, bool]:
    """Remove the entries of runs that have lost a checkpoint or its copy, whose others are due again.

    Returns whether there were any.
    """
    exists = Checkpoint.objects.filter(pk=OuterRef("pk")).exclude(state=Checkpoint.State.NO_COPY)
    gone = SearchedCheckpoint.objects.filter(~Exists(exists), location=location).order_by()
    found = False
    while (row := gone.first()) is not None:
        found = True
        yield from remove_run(row.run_id)
        SearchedRun.objects.filter(run=row.run_id).delete()
    return found


class _LastCleanUp:
    """The locations that existed when this process last removed orphans."""

    locations: frozenset[int] | None = None


def _remove_orphans() -> Iterator[None]:
    """Remove the entries of locations that were removed."""
    known = frozenset(Location.objects.values_list("pk", flat=True))
    if known == _LastCleanUp.locations:
        return
    for model in (SearchEntry, SearchedCheckpoint):
        rows = model._default_manager.order_by("location_id").values_list("location_id", flat=True)
        last = 0
        # One search of the index per location.
        while (location := rows.filter(location_id__gt=last).first()) is not None:
            last = location
            if location not in known:
                yield from remove_location(location)
    _LastCleanUp.locations = known


# A thread that indexes whenever something has changed.


# Seconds of one step.
STEP_SECONDS = 0.5
# Seconds between two steps if there is nothing left: many changes are indexed at once.
QUIET_SECONDS = 2.0


def indexing_in_background() -> AbstractContextManager[None]:
    """Index in a thread until the end of the block."""
    return in_background("search-indexing", lambda: index_some(STEP_SECONDS), QUIET_SECONDS)


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
