"""The contents of a checkpoint, from its stored copy or read by the host, and where they have keys."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

import zstandard
from django.conf import settings
from django.db.models import F

from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Contents
from viewer.engines.recorded_calls import RecordedCall
from viewer.host_requests import NotReadable, ReadBodies, ReadBody, ask
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location, Run, StoredCopy
from viewer.records import bucket
from viewer.redaction import MARKER, HiddenValue, hidden_values
from viewer.redaction.values import decoded

# Maximum memory in bytes of the decoded values of one checkpoint.
MAX_MEMORY_OF_VALUES = 256 * 1024 * 1024
_BYTES_A_VALUE = 64


def stored_bytes(checkpoint: Checkpoint) -> bytes:
    """The redacted JSON of the source or the stored copy, as ``body_of``. Raises NotReadable."""
    return zstandard.ZstdDecompressor().decompress(_compressed(checkpoint)[0])


def _compressed(checkpoint: Checkpoint) -> tuple[bytes, UserMessage | None]:
    """Return the compressed, redacted JSON of a checkpoint. Raises NotReadable.

    The second value is the reason why it comes from the stored copy of a checkpoint that is usually read at
    its source.
    """
    copy = getattr(checkpoint, "stored_copy", None)
    reason = None
    if copy is None or _is_shown_from_source(checkpoint, copy):
        try:
            return ask(ReadBody(checkpoint.pk)), None
        except NotReadable as error:
            if copy is None or not copy.has_body:
                raise
            reason = error.message
    elif not copy.has_body:
        raise NotReadable("import.copy_deleted")
    elif copy.fingerprint:
        reason = UserMessage("import.deleted_at_source")
    return bucket.read(copy), reason


def copy_to_send(checkpoint: Checkpoint, kind: RootKind) -> bytes:
    """The JSON from which another host starts a run of this kind. Raises NotReadable.

    It is that of the stored copy, or what the source has if runs need it. Nothing may have been redacted.
    """
    copy = getattr(checkpoint, "stored_copy", None)
    if not kind.needs_source and (copy is None or copy.fingerprint or not copy.has_body):
        raise NotReadable("other_host.no_copy")
    data = stored_bytes(checkpoint)
    if MARKER.encode() in data or MARKER in checkpoint.source_key:
        raise NotReadable("other_host.redacted_copy")
    return data


def copy_digest(data: bytes) -> str:
    """The digest that identifies the JSON of a copy."""
    return sha256(data).hexdigest()


def _is_shown_from_source(checkpoint: Checkpoint, copy: StoredCopy) -> bool:
    """Whether a checkpoint with a copy is read at its source for as long as it is there."""
    return not checkpoint.is_pruned and bool(copy.fingerprint or not copy.has_body)


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. Numbers that Python cannot represent are texts.

    Empty if it is nested too deeply, is larger than what is shown, or would take too much memory, or if there
    is no copy and the source cannot be read. (An import checks the depth only if the brackets suggest it.)
    Raises BucketAway.
    """
    try:
        return body_of(checkpoint)
    except bucket.BucketAway:
        raise
    except NotReadable:
        return {}


def body_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The same as ``stored_body``, but raises NotReadable if there is no copy and no readable source."""
    return decoded_copy(_compressed(checkpoint)[0])


def shown_body(checkpoint: Checkpoint) -> tuple[dict[str, Any], UserMessage | None]:
    """Return ``body_of`` and, if the source should be shown but cannot be read, the reason.

    Raises NotReadable.
    """
    compressed, reason = _compressed(checkpoint)
    return decoded_copy(compressed), reason


def bodies_of(
    location: Location, checkpoints: Sequence[Checkpoint]
) -> Iterator[tuple[Checkpoint, dict[str, Any]]]:
    """Yield each readable checkpoint of a location with its ``body_of``.

    Those that are shown from their source are read there in one batch. Raises BucketAway.
    """
    at_source = dict[int, Checkpoint]()
    for checkpoint in checkpoints:
        copy = getattr(checkpoint, "stored_copy", None)
        if copy is None or _is_shown_from_source(checkpoint, copy):
            at_source[checkpoint.pk] = checkpoint
        elif copy.has_body:
            yield from _copied(checkpoint, copy)
    if at_source:
        for body in ask(ReadBodies(location.pk, list(at_source))):
            yield at_source.pop(body.checkpoint), decoded_copy(body.data)
    for checkpoint in at_source.values():
        if (copy := getattr(checkpoint, "stored_copy", None)) is not None and copy.has_body:
            yield from _copied(checkpoint, copy)


def _copied(checkpoint: Checkpoint, copy: StoredCopy) -> Iterator[tuple[Checkpoint, dict[str, Any]]]:
    """Yield a checkpoint with the body of its copy, or nothing if it is missing. Raises BucketAway."""
    try:
        yield checkpoint, decoded_copy(bucket.read(copy))
    except bucket.BucketAway:
        raise
    except NotReadable:
        return


def decoded_copy(compressed: bytes) -> dict[str, Any]:
    """The decoded values of a redacted checkpoint; empty if it exceeds the limits of pages."""
    if zstandard.frame_content_size(compressed) > settings.CHECKPOINT_MAX_SHOWN_BYTES:
        return {}
    data = zstandard.ZstdDecompressor().decompress(compressed)
    if memory_of_values(data) > MAX_MEMORY_OF_VALUES:
        return {}
    try:
        body = decoded(data)
    except RecursionError:
        return {}
    return body if isinstance(body, dict) and not nests_deeper(body, settings.CHECKPOINT_MAX_DEPTH) else {}


def stored_contents(checkpoint: Checkpoint) -> Contents:
    """The contents of the stored copy, as the location's engine decodes them."""
    return contents_at(checkpoint, stored_body(checkpoint))


def first_contents(run: Run) -> Contents | None:
    """What the first checkpoint of a run holds that has a copy; None if there is none."""
    rows = run.checkpoints.exclude(state=Checkpoint.State.NO_COPY).select_related("location", "stored_copy")
    first = rows.order_by("row").first()
    return stored_contents(first) if first else None


def contents_at(checkpoint: Checkpoint, body: dict[str, Any]) -> Contents:
    """The contents of a checkpoint with this body, as the location's engine decodes them."""
    engine = engine_of(checkpoint.location)
    contents: Contents = engine.contents_of(body)
    return engine.completed(contents) if checkpoint.ended_as == Checkpoint.COMPLETED else contents


def readable_contents(checkpoint: Checkpoint) -> Contents:
    """The contents of a checkpoint. Raises NotReadable, also if it is too large to show."""
    if not (body := body_of(checkpoint)):
        raise NotReadable("store.not_shown")
    return contents_at(checkpoint, body)


def calls_in(contents: Contents) -> list[RecordedCall]:
    """The model calls that a checkpoint with these contents records, oldest first."""
    return list(engine_of(contents).recorded_calls(contents))


def memory_of_values(data: bytes) -> int:
    """An upper bound of the memory in bytes of a JSON text's decoded values, at least 64 for each."""
    values = sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))
    return len(data) + _BYTES_A_VALUE * values


def nests_deeper(value: Any, max_depth: int) -> bool:
    """Whether a decoded JSON value has more than this many levels of objects and lists."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > max_depth:
            return True
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return False


# The keys in the checkpoints of a location: where redaction has hidden something, and never what.

# Checkpoints that one query, and one request to a host, reads.
BATCH = 50
# Places that a report lists. A hostile checkpoint may have one for each of its texts.
MAX_PLACES = 1000
# An item of a list, or of an object whose fields are named by ids.
_ITEM = re.compile(r"\[\d+\]|\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=[.\[]|$)")


@dataclass(slots=True)
class FoundKey:
    """A place at which checkpoints have a secret: the same field of all items of a list or object is one.

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
