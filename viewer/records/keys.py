"""The keys in the checkpoints of a location: where redaction has hidden something, and never what."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F

from viewer.models import Checkpoint, Location
from viewer.records.bodies import bodies_of
from viewer.redaction import HiddenValue, hidden_values

# Checkpoints that one query, and one request to a host, reads.
BATCH = 50
# Places that a report lists. A hostile checkpoint may have one for each of its texts.
MAX_PLACES = 1000
_ITEM = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class FoundKey:
    """A place at which checkpoints have a secret: the same field of every item of a list is one place.

    ``field`` names it. If not ``is_whole``, the secret is a part of a text. The times are those of the first
    and the last of ``checkpoints``, as far as they record one; ``last_path`` is its place in the last.
    """

    place: str
    field: str
    is_whole: bool
    first: Checkpoint
    last: Checkpoint
    last_path: str
    checkpoints: int = 0

    @property
    def first_seen(self) -> datetime | None:
        return self.first.created_at

    @property
    def last_seen(self) -> datetime | None:
        return self.last.created_at


@dataclass(slots=True)
class KeyReport:
    """The places, the one that was seen last first, and how many checkpoints were read of how many.

    ``is_cut_off`` if there are more than ``MAX_PLACES``.
    """

    keys: list[FoundKey] = field(default_factory=list)
    read: int = 0
    total: int = 0
    is_cut_off: bool = False


def keys_in(location: Location, newest: int | None = None) -> KeyReport:
    """Return where the checkpoints of a location have keys: all of them, or only this number of the newest.

    Reads the redacted copies, and at their source the checkpoints that have none. Raises BucketAway.
    """
    rows = location.checkpoints.order_by(F("created_at").desc(nulls_last=True), "-pk")
    found, report = dict[tuple[str, bool], FoundKey](), KeyReport(total=rows.count())
    keys = list(rows.values_list("pk", flat=True)[:newest])
    readable = location.checkpoints.select_related("run", "location", "stored_copy")
    for first in range(0, len(keys), BATCH):
        batch = keys[first : first + BATCH]
        bodies = bodies_of(location, list(readable.in_bulk(batch).values()))
        read = {row.pk: (row, _places(body)) for row, body in bodies}
        report.read += len(read)
        for checkpoint, places in (read[key] for key in batch if key in read):
            report.is_cut_off |= not _add(found, checkpoint, places)
    report.keys = list(found.values())
    return report


Places = dict[tuple[str, bool], HiddenValue]


def _places(body: dict[str, Any]) -> Places:
    """What is hidden at each place of a checkpoint, and whether it is the whole value."""
    places: Places = {}
    for one in hidden_values(body):
        places.setdefault((_ITEM.sub("[]", one.path), one.is_whole), one)
        if len(places) == MAX_PLACES:
            break
    return places


def _add(found: dict[tuple[str, bool], FoundKey], checkpoint: Checkpoint, places: Places) -> bool:
    """Add the places of a checkpoint, after those of later ones. Return False if there are too many."""
    for key, one in places.items():
        if key not in found:
            if len(found) == MAX_PLACES:
                return False
            found[key] = FoundKey(key[0], one.field, one.is_whole, checkpoint, checkpoint, one.path)
        found[key].first = checkpoint
        found[key].checkpoints += 1
    return True


def key_document(key: FoundKey) -> dict[str, Any]:
    """Return what is known of a key as a JSON document."""
    return {
        "kind": "field" if key.is_whole else "text",
        "field": key.field,
        "place": key.place,
        "checkpoints": key.checkpoints,
        "first_seen": key.first_seen.isoformat() if key.first_seen else None,
        "last_seen": key.last_seen.isoformat() if key.last_seen else None,
        "first": {"run": str(key.first.run.uid), "checkpoint": key.first.checkpoint_id},
        "last": {"run": str(key.last.run.uid), "checkpoint": key.last.checkpoint_id, "path": key.last_path},
    }
