"""The contents of a checkpoint, from its stored copy or its source."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from django.conf import settings
from django.db.models import Q, QuerySet

from viewer.engines import engine_name, engine_of, store_format_named
from viewer.engines.protocol import Contents
from viewer.host.locations.addresses import address_of, is_indexed, read_limits
from viewer.host.reading.location_reader import open_reader
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Annotation, Checkpoint, Job, Location, Run, StoredCopy
from viewer.redaction.json_bytes import decoded
from viewer.stores.errors import LocationUnreadable
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry

# Which runs of indexed locations have stored copies: those that people have forked or annotated.


def copied_runs() -> list[Run]:
    """Return the outermost runs whose checkpoints are copied.

    These are runs with a fork of one of their checkpoints, or with an annotation of the run, of a branch or
    of a checkpoint. Forks and annotations of a called run count for the outermost one.
    """
    found = dict[int, Run]()
    for location in Location.objects.exclude(store_kind=Location.StoreKind.JSON):
        if is_indexed(location):
            for run in location.runs.filter(pk__in=_chosen(location)).select_related("location__project"):
                found[run.outermost.pk] = run.outermost
    return list(found.values())


def first_to_copy(location: Location, runs: list[int]) -> QuerySet[Checkpoint]:
    """Return the forked and annotated checkpoints of these runs, whose ancestors are copied first."""
    written = Annotation.objects.filter(location_uid=location.uid)
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    branches = written.exclude(branch="").values("branch")
    is_annotated = Q(checkpoint_id__in=ids) | Q(is_branch_head=True, branch__in=branches)
    return Checkpoint.objects.filter(is_annotated | Q(pk__in=_forked(location)), run__in=runs)


def _chosen(location: Location) -> set[int]:
    """Return the primary keys of the runs that were forked or annotated, called runs included."""
    written = Annotation.objects.filter(location_uid=location.uid)
    keys = written.exclude(run_key="").values("run_key")
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    checkpoints = location.checkpoints.filter(Q(checkpoint_id__in=ids) | Q(pk__in=_forked(location)))
    return {
        *location.runs.filter(key__in=keys).order_by().values_list("pk", flat=True),
        *checkpoints.order_by().values_list("run_id", flat=True).distinct(),
    }


def _forked(location: Location) -> QuerySet[Job, int | None]:
    """Return the primary keys of the checkpoints that were forked."""
    forks = location.jobs.filter(kind=Job.Kind.FORK).exclude(checkpoint=None)
    return forks.order_by().values_list("checkpoint_id", flat=True)


# The contents of a checkpoint, from its stored copy or its source.


# Maximum memory in bytes of the decoded values of one checkpoint.
MAX_MEMORY_OF_VALUES = 256 * 1024 * 1024
_BYTES_A_VALUE = 64


class NotReadable(UserFacingError):
    """A checkpoint has no stored copy and cannot be read at its source. The message says why."""


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
            return _read_at_source(checkpoint), None
        except NotReadable as error:
            if copy is None or not copy.data:
                raise
            reason = error.message
    elif not copy.data:
        raise NotReadable("import.copy_deleted")
    elif copy.fingerprint:
        reason = UserMessage("import.deleted_at_source")
    return bytes(copy.data), reason


def _is_shown_from_source(checkpoint: Checkpoint, copy: StoredCopy) -> bool:
    """Whether a checkpoint with a copy is read at its source for as long as it is there."""
    return not checkpoint.is_pruned and bool(copy.fingerprint or not copy.data)


def _read_at_source(checkpoint: Checkpoint) -> bytes:
    """The compressed, redacted checkpoint, read by a reader process. Raises NotReadable."""
    entry = Entry(checkpoint.source_key, checkpoint.fingerprint, checkpoint.size)
    try:
        with open_reader(address_of(checkpoint.location)) as reader:
            result = next(reader.read_all([entry], 1), None)
    except LocationUnreadable as error:
        raise NotReadable(error.message) from None
    except OSError as error:
        raise NotReadable("import.read_failed", why=str(error.strerror or error)) from None
    if isinstance(result, Packed):
        return result.data
    raise NotReadable(result.reason if result else UserMessage("store.row_vanished"))


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. Numbers that Python cannot represent are texts.

    Empty if it is nested too deeply, is larger than what is shown, or would take too much memory, or if there
    is no copy and the source cannot be read. (An import checks the depth only if the brackets suggest it.)
    """
    try:
        return body_of(checkpoint)
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

    Those that are shown from their source are read there in one batch.
    """
    at_source = dict[str, Checkpoint]()
    for checkpoint in checkpoints:
        copy = getattr(checkpoint, "stored_copy", None)
        if copy is None or _is_shown_from_source(checkpoint, copy):
            at_source[checkpoint.source_key] = checkpoint
        elif copy.data:
            yield checkpoint, decoded_copy(bytes(copy.data))
    if not at_source:
        return
    entries = [Entry(row.source_key, row.fingerprint, row.size) for row in at_source.values()]
    with suppress(LocationUnreadable, OSError), open_reader(address_of(location)) as reader:
        for result in reader.read_all(entries, 1):
            if isinstance(result, Packed) and result.key in at_source:
                yield at_source.pop(result.key), decoded_copy(result.data)
    for checkpoint in at_source.values():
        if (copy := getattr(checkpoint, "stored_copy", None)) is not None and copy.data:
            yield checkpoint, decoded_copy(bytes(copy.data))


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
    return body if isinstance(body, dict) and not nests_deeper(body, read_limits().max_depth) else {}


def stored_contents(checkpoint: Checkpoint) -> Contents:
    """The contents of the stored copy, as the location's engine decodes them."""
    return contents_at(checkpoint, stored_body(checkpoint))


def contents_at(checkpoint: Checkpoint, body: dict[str, Any]) -> Contents:
    """The contents of a checkpoint with this body, as the location's engine decodes them."""
    engine = engine_of(checkpoint.location)
    contents: Contents = engine.contents_of(body)
    return engine.completed(contents) if checkpoint.ended_as == Checkpoint.COMPLETED else contents


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


# The real ids of a checkpoint whose row has redacted ids. Never stored.


@dataclass(frozen=True, slots=True)
class UnredactedSource:
    """The ids with which an engine finds a checkpoint. ``branch`` is empty if only its contents record it."""

    checkpoint_id: str
    source: str
    branch: str = ""


def unredacted_source(checkpoint: Checkpoint) -> UnredactedSource:
    """The real ids and source of a checkpoint; those of its row if it can no longer be found."""
    location = checkpoint.location
    try:
        with open_reader(address_of(location)) as store:
            found = store.entry(checkpoint.source_key)
    except LocationUnreadable:
        found = None
    if not isinstance(found, Entry):
        return UnredactedSource(checkpoint.checkpoint_id, checkpoint.source)
    key, store_format = found.real_key, store_format_named(engine_name(location))
    if location.store_kind != Location.StoreKind.JSON:
        return UnredactedSource(
            store_format.ids_in_row(key, None, "").checkpoint_id, f"{location.path}#{key}"
        )
    ids = store_format.ids_in_path(key)
    return UnredactedSource(ids.checkpoint_id, str(Path(location.path) / key), ids.branch)
