"""Index what people wrote about runs, branches and checkpoints: names, labels and notes."""

from hashlib import blake2b

from django.db import transaction
from django.db.models import Max

from viewer.models import Annotation, Checkpoint, Location, SearchEntry
from viewer.search.indexing.texts import MAX_TEXT, clean


def notes_mark(location: Location) -> str:
    """A text that differs if a person has written something about the location since."""
    notes = Annotation.objects.filter(location_uid=location.uid)
    newest = notes.aggregate(newest=Max("changed_at"))["newest"]
    return f"{notes.count()}:{newest.timestamp():.6f}" if newest else ""


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
    checkpoint = found.order_by("-row").first()
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
