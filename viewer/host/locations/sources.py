"""Reads checkpoints at their source, and their real ids, for the rows that lack them."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from viewer.engines import engine_name, store_format_named
from viewer.host.locations.addresses import address_of
from viewer.host.reading.location_reader import open_reader
from viewer.host_requests import Body, NotReadable
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location
from viewer.stores.errors import LocationUnreadable
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry


def read_body(checkpoint: Checkpoint) -> bytes:
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


def read_bodies(location: Location, checkpoints: list[int]) -> list[Body]:
    """The checkpoints with these primary keys, read in one batch, without those that cannot be read."""
    found_rows = location.checkpoints.in_bulk(checkpoints)
    rows = {row.source_key: row for key in checkpoints if (row := found_rows.get(key)) is not None}
    entries = [Entry(row.source_key, row.fingerprint, row.size) for row in rows.values()]
    found = []
    with suppress(LocationUnreadable, OSError), open_reader(address_of(location)) as reader:
        for result in reader.read_all(entries, 1):
            if isinstance(result, Packed) and result.key in rows:
                found.append(Body(rows.pop(result.key).pk, result.data))
    return found


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
