"""Collections of checkpoints, messages and calls: what is added, changed, exported and imported."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import UUID, uuid5

import msgspec
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet

from viewer.data_folder.locks import exclusive_transaction
from viewer.engines.recorded_calls import CallMessage, answer_in
from viewer.host_requests import Redact, ask
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Collection, CollectionItem, Job, Location, Sweep
from viewer.models.roles import unrestricted
from viewer.models.rows import in_slices
from viewer.records.annotations import mark_of
from viewer.records.audit import Action, Audited, record
from viewer.validation import InvalidInput, one_line_text, shortened, text_value

# The largest collection and texts.
MAX_COLLECTIONS, MAX_ITEMS = 1_000, 1_000
MAX_NAME, MAX_DESCRIPTION, MAX_NOTE, MAX_EXPECTED = 200, 4_000, 20_000, 50_000
# Of a file that is imported, and the errors in it that are named.
MAX_BYTES, MAX_ERRORS = 16 * 1024 * 1024, 10
# Guards what is read before it is written.
LOCK = "collections"


class NotCollected(UserFacingError):
    """Nothing was stored, because of what the message says."""


class ItemChanged(NotCollected):
    """Somebody changed the item after the form was shown. ``current`` is what is stored now."""

    def __init__(self, current: CollectionItem) -> None:
        super().__init__("collection.item_changed")
        self.current = current


# The checkpoints of items.


def checkpoints_of(items: Iterable[CollectionItem]) -> dict[int, Checkpoint]:
    """The checkpoint of each item that is here, by the key of the item.

    A checkpoint of another installation is here if exactly one location has one of its run with its id.
    """
    wanted = list(items)
    found: dict[int, Checkpoint] = {}
    for some in in_slices(wanted):
        here = _rows({one.checkpoint_id for one in some}, Q(uid__in={one.location_uid for one in some}))
        for one in some:
            rows = [row for row in here.get(one.checkpoint_id, ()) if row.location.uid == one.location_uid]
            if chosen := _chosen(rows, one):
                found[one.pk] = chosen
        lost = [one for one in some if one.pk not in found]
        elsewhere = _rows({one.checkpoint_id for one in lost}, Q()) if lost else {}
        for one in lost:
            rows = [row for row in elsewhere.get(one.checkpoint_id, ()) if row.run.key == one.run_key]
            if len({row.location_id for row in rows}) == 1:
                found[one.pk] = min(rows, key=_is_away)
    return found


def collected_ids(location: Location) -> QuerySet[CollectionItem, str]:
    """The ids of the checkpoints of a location that are in a collection, or parts of them.

    Those of an item of another installation may be here as well (``checkpoints_of``).
    """
    known = Location.objects.order_by().values("uid")
    items = CollectionItem.objects.filter(Q(location_uid=location.uid) | ~Q(location_uid__in=known))
    return items.order_by().values_list("checkpoint_id", flat=True)


def _rows(identifiers: set[str], locations: Q) -> dict[str, list[Checkpoint]]:
    # The index is by location and id.
    known = Location.objects.filter(locations).order_by().values("pk")
    rows = Checkpoint.objects.filter(location__in=known, checkpoint_id__in=identifiers)
    found: dict[str, list[Checkpoint]] = {}
    for row in rows.select_related("run", "location__project", "parent"):
        found.setdefault(row.checkpoint_id, []).append(row)
    return found


def _chosen(rows: Sequence[Checkpoint], item: CollectionItem) -> Checkpoint | None:
    """The checkpoint of the item's run. Its run may have been merged into another one."""
    of_run = [row for row in rows if row.run.key == item.run_key]
    if not of_run and len({row.run_id for row in rows}) != 1:
        return None
    return min(of_run or rows, key=_is_away)


def _is_away(row: Checkpoint) -> bool:
    """Whether it cannot be read at its source. A copied file repeats its id."""
    return row.state != Checkpoint.State.PRESENT


# What people write: collections and their items. Secrets are redacted, before the transaction: the host of a
# project may be another machine.


def _redacted(values: list[str], project: int | None = None) -> list[str]:
    """Each of these texts without secrets, also those of the project."""
    return list(map(str, ask(Redact(project, values)))) if any(values) else values


def _clean(text: str, most: int) -> str:
    """The text, whose ends of lines may be those of a browser. Raises NotCollected."""
    try:
        return text_value(text.replace("\r\n", "\n").strip(), most)
    except InvalidInput as error:
        raise NotCollected(error.message) from None


def _clean_name(text: str) -> str:
    """The name without outer spaces, redacted. Raises NotCollected."""
    try:
        return _redacted([one_line_text(" ".join(text.split()), MAX_NAME)])[0][:MAX_NAME]
    except InvalidInput as error:
        raise NotCollected("collection.field", name="name", wanted=error.wanted) from None


def collection_named(name: str, person: Any) -> Collection:
    """The collection of this name, made if there is none. Raises NotCollected."""
    clean = _clean_name(name)
    with exclusive_transaction(LOCK):
        if found := Collection.objects.filter(name=clean).first():
            return found
        if Collection.objects.count() >= MAX_COLLECTIONS:
            raise NotCollected("collection.too_many", most=MAX_COLLECTIONS)
        made = Collection.objects.create(name=clean, made_by=person)
        record(Action.ADDED, Audited.COLLECTION, made.pk)
        return made


def change_collection(collection: Collection, name: str, description: str) -> None:
    """Store another name and description. Raises NotCollected."""
    clean = _clean_name(name)
    described = _redacted([_clean(description, MAX_DESCRIPTION)])[0][:MAX_DESCRIPTION]
    with exclusive_transaction(LOCK):
        if Collection.objects.filter(name=clean).exclude(pk=collection.pk).exists():
            raise NotCollected("collection.name_taken", name=clean)
        Collection.objects.filter(pk=collection.pk).update(name=clean, description=described)
        record(Action.CHANGED, Audited.COLLECTION, collection.pk, "name, description")


def delete_collection(collection: Collection) -> None:
    """Delete the collection with its items. What they refer to stays.

    Raises PermissionDenied if the present request does not see all of the items.
    """
    with exclusive_transaction(LOCK):
        with unrestricted():
            count = collection.items.count()
        if collection.items.count() < count:
            # Somebody else's.
            raise PermissionDenied
        record(Action.REMOVED, Audited.COLLECTION, collection.pk)
        collection.delete()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is added: a checkpoint, or the ``part`` of it that is a message or a call."""

    checkpoint: Checkpoint
    kind: CollectionItem.Kind = CollectionItem.Kind.CHECKPOINT
    part: str = ""
    title: str = ""


def add_items(
    collection: Collection, subjects: Iterable[Subject], person: Any, note: str = "", expected: str = ""
) -> list[CollectionItem]:
    """Add what is not in the collection, with the same note and expected answer. Raises NotCollected.

    Returns the new items. What is in the collection keeps its note and its expected answer.
    """
    typed = _clean(note, MAX_NOTE), _clean(expected, MAX_EXPECTED)
    items = []
    for subject in subjects:
        checkpoint = subject.checkpoint
        item = CollectionItem(
            kind=subject.kind,
            location_uid=checkpoint.location.uid,
            run_key=checkpoint.run.key,
            checkpoint_id=checkpoint.checkpoint_id,
            part=subject.part,
        )
        _write(item, [subject.title, *typed], checkpoint.location.project_id)
        items.append(item)
    with exclusive_transaction(LOCK):
        present = {item.ids for item in collection.items.all()}
        new = {item.ids: item for item in items if item.ids not in present}
        return _store(collection, list(new.values()), person)


def _write(item: CollectionItem, texts: list[str], project: int | None) -> None:
    title, note, expected = _redacted(texts, project)
    item.title, item.note, item.expected = title[:300], note[:MAX_NOTE], expected[:MAX_EXPECTED]


def _store(collection: Collection, items: list[CollectionItem], person: Any) -> list[CollectionItem]:
    # A program does not see a new one before it has an item that it sees.
    with unrestricted():
        if not Collection.objects.filter(pk=collection.pk).exists():
            raise NotCollected("collection.gone")
        if collection.items.count() + len(items) > MAX_ITEMS:
            raise NotCollected("collection.too_many_items", most=MAX_ITEMS)
    for item in items:
        item.pk, item.collection, item.made_by = None, collection, person
    if items:
        CollectionItem.objects.bulk_create(items, batch_size=100)
        record(Action.ADDED, Audited.COLLECTION, collection.pk, f"{len(items)} items")
    return items


def seen_mark(item: CollectionItem) -> str:
    """The mark of the texts that a form shows."""
    return mark_of(item.note, item.expected)


def change_item(item: CollectionItem, note: str, expected: str, seen: str | None = None) -> None:
    """Store another note and expected answer.

    ``seen`` is the mark of the texts that the person saw. Raises ItemChanged if there are others now, and
    NotCollected.
    """
    row = checkpoints_of([item]).get(item.pk)
    texts = [item.title, _clean(note, MAX_NOTE), _clean(expected, MAX_EXPECTED)]
    changed = CollectionItem(pk=item.pk)
    _write(changed, texts, row.location.project_id if row else None)
    with exclusive_transaction(LOCK):
        current = CollectionItem.objects.filter(pk=item.pk).first()
        if current is None:
            raise NotCollected("collection.gone")
        if seen is not None and seen != seen_mark(current):
            raise ItemChanged(current)
        changed.save(update_fields=["title", "note", "expected"])
        record(Action.CHANGED, Audited.COLLECTION, item.collection_id, "note, expected answer of an item")


def remove_item(item: CollectionItem) -> None:
    """Remove an item from its collection. What it refers to stays."""
    with exclusive_transaction(LOCK):
        record(Action.REMOVED, Audited.COLLECTION, item.collection_id, "an item")
        item.delete()


# Items as JSON Lines.


class ItemLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a file: an item, by the ids that its permalink is made of. ``address`` is that permalink."""

    kind: str
    location: UUID
    run: str
    checkpoint: str
    part: str = ""
    title: str = ""
    note: str = ""
    expected: str = ""
    address: str = ""


def lines_of(collection: Collection, origin: str) -> Iterator[str]:
    """Each item as a line of JSON, with the permalink of its checkpoint at this origin."""
    items = list(collection.items.all())
    found = checkpoints_of(items)
    for item in items:
        row = found.get(item.pk)
        line = ItemLine(
            kind=item.kind,
            location=item.location_uid,
            run=item.run_key,
            checkpoint=item.checkpoint_id,
            part=item.part,
            title=item.title,
            note=item.note,
            expected=item.expected,
            address=origin + (row.get_absolute_url() if row else item.address),
        )
        yield json.dumps(msgspec.to_builtins(line)) + "\n"


DECODER = msgspec.json.Decoder(ItemLine)
# Characters of each text of a line.
LENGTHS = {
    "run": 200,
    "checkpoint": 300,
    "part": 300,
    "title": 300,
    "note": MAX_NOTE,
    "expected": MAX_EXPECTED,
    "address": 4_000,
}
# Those of the columns that may hold a secret.
TEXTS = {
    "run_key": LENGTHS["run"],
    "checkpoint_id": LENGTHS["checkpoint"],
    "part": LENGTHS["part"],
    "title": LENGTHS["title"],
    "note": MAX_NOTE,
    "expected": MAX_EXPECTED,
}


class NotImported(NotCollected):
    """Nothing was imported. ``errors`` are the first errors, each with the number of its line."""

    def __init__(self, errors: Sequence[tuple[int, UserMessage]]) -> None:
        super().__init__("collection.not_imported")
        self.errors = list(errors)[:MAX_ERRORS]


@dataclass(frozen=True, slots=True)
class Imported:
    """How many items were added and were there already, and the numbers of lines that differ from those."""

    added: int = 0
    present: int = 0
    kept: Sequence[int] = field(default_factory=list)


def items_in(data: bytes) -> list[CollectionItem]:
    """The items of a file of JSON Lines, whose keys are the numbers of their lines.

    Raises NotImported if a line has an error, and NotCollected for the whole file.
    """
    if len(data) > MAX_BYTES:
        raise NotCollected("collection.too_large", most=MAX_BYTES)
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if len(lines) > MAX_ITEMS:
        raise NotCollected("collection.too_many_items", most=MAX_ITEMS)
    if not lines:
        raise NotCollected("collection.empty_file")
    items, errors = [], list[tuple[int, UserMessage]]()
    for number, line in lines:
        try:
            items.append(_item(number, line))
        except NotCollected as error:
            errors.append((number, error.message))
            if len(errors) == MAX_ERRORS:
                break
    if errors:
        raise NotImported(errors)
    return items


def import_items(collection: Collection, items: Sequence[CollectionItem], person: Any) -> Imported:
    """Add the items of a file (``items_in``) that are not in the collection. Raises NotCollected.

    An item that is there keeps its note and its expected answer.
    """
    found = checkpoints_of(items)
    _redact_lines(items, found)
    with exclusive_transaction(LOCK):
        # Also items of locations that the person does not see, which the file may name.
        with unrestricted():
            known = {item.ids: item for item in collection.items.all()}
        new, kept, present = [], [], 0
        for item in items:
            other = known.setdefault(item.ids, item)
            if other is item:
                new.append(item)
            elif (other.note, other.expected) == (item.note, item.expected):
                present += 1
            else:
                kept.append(item.pk)
        _store(collection, new, person)
    return Imported(len(new), present, kept)


def _item(number: int, data: bytes) -> CollectionItem:
    """The item of a line. Raises NotCollected."""
    try:
        line = DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # It may quote the line.
        reason = shortened(_redacted([str(error)])[0], 200)
        raise NotCollected("collection.not_an_item", reason=reason) from None
    is_part = line.kind != CollectionItem.Kind.CHECKPOINT
    if line.kind not in CollectionItem.Kind.values:
        choices = ", ".join(CollectionItem.Kind.values)
        _refuse("kind", UserMessage("search.one_of", {"choices": choices}))
    for name, most in {**LENGTHS, "part": LENGTHS["part"] if is_part else 0}.items():
        text = getattr(line, name)
        try:
            text_value(text, most)
        except InvalidInput as error:
            _refuse(name, error.wanted)
        if not text.strip() and (name in ("run", "checkpoint") or (is_part and name == "part")):
            _refuse(name, UserMessage("validation.one_line", {"most": most}))
    return CollectionItem(
        pk=number,
        kind=line.kind,
        location_uid=line.location,
        run_key=line.run,
        checkpoint_id=line.checkpoint,
        part=line.part,
        title=line.title,
        note=line.note.strip(),
        expected=line.expected.strip(),
    )


def _refuse(name: str, wanted: UserMessage) -> NoReturn:
    raise NotCollected("collection.field", name=name, wanted=wanted)


def _redact_lines(items: Iterable[CollectionItem], found: Mapping[int, Checkpoint]) -> None:
    """Redact the texts of items, also with the secrets of the projects of their checkpoints."""
    by_project: dict[int | None, list[CollectionItem]] = {}
    for item in items:
        row = found.get(item.pk)
        by_project.setdefault(row.location.project_id if row else None, []).append(item)
    for project, some in by_project.items():
        texts = iter(_redacted([getattr(item, name) for item in some for name in TEXTS], project))
        for item in some:
            for name, most in TEXTS.items():
                setattr(item, name, next(texts)[:most])


# The jobs that score the end results of a sweep.


# A scoring function is stopped after this time.
SCORE_SECONDS = 300


def score_key(job: Job) -> UUID:
    """The idempotency key of the job that scores this job's end result, so that it is scored once."""
    return uuid5(job.idempotency_key, "score")


def recorded_key(job: Job) -> UUID:
    """The idempotency key of the job that scores the recorded result next to that of this job."""
    return uuid5(job.idempotency_key, "recorded score")


def scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The scoring jobs of these jobs, by the id of the scored job."""
    return _by_job({score_key(job): job.pk for job in jobs})


def recorded_scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The jobs that score what was recorded before these jobs, by the ids of these."""
    return _by_job({recorded_key(job): job.pk for job in jobs})


def _by_job(keys: Mapping[UUID, UUID]) -> dict[UUID, Job]:
    return {keys[one.idempotency_key]: one for one in Job.objects.filter(idempotency_key__in=keys)}


def whole_answer(job: Job, seq: int | None = None) -> CallMessage | None:
    """The first answer of a replay, or that of event ``seq``; None if it failed or is not whole."""
    events = job.events.filter(kind="call_replayed").order_by("seq")
    event = (events if seq is None else events.filter(seq=seq)).first()
    is_whole = event and not (event.data.get("error") or event.data.get("is_cut"))
    return answer_in(event.data) if event and is_whole else None


def expected_answer(sweep: Sweep | None, checkpoint: Checkpoint | None, call: str = "") -> str:
    """The expected answer of the item with this checkpoint, or a call of it, in the collection of a sweep.

    Empty if there is none.
    """
    if sweep is None or sweep.collection is None or checkpoint is None:
        return ""
    if call:
        return expected_of_calls(sweep.collection, checkpoint).get((checkpoint.pk, call), "")
    named = sweep.collection.items.filter(checkpoint_id=checkpoint.checkpoint_id).exclude(expected="")
    # A message of the checkpoint may be an item as well.
    found_items = named.exclude(kind=CollectionItem.Kind.CALL)
    items = sorted(found_items, key=lambda item: item.kind != CollectionItem.Kind.CHECKPOINT)
    found = checkpoints_of(items)
    return next((item.expected for item in items if found.get(item.pk) == checkpoint), "")


def expected_of_calls(
    collection: Collection, checkpoint: Checkpoint | None = None
) -> dict[tuple[int, str], str]:
    """The expected answers of the calls of a collection, or those of a checkpoint.

    By the key of the checkpoint and the name of the call.
    """
    items = collection.items.filter(kind=CollectionItem.Kind.CALL).exclude(expected="")
    if checkpoint:
        items = items.filter(checkpoint_id=checkpoint.checkpoint_id)
    found = checkpoints_of(items)
    return {(found[item.pk].pk, item.part): item.expected for item in items if item.pk in found}
