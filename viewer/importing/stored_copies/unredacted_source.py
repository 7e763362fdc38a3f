"""The real ids of a checkpoint whose row has redacted ids. Never stored."""

from dataclasses import dataclass
from pathlib import Path

from viewer.engines import engine_name, store_format_named
from viewer.importing.addresses import address_of
from viewer.models import Checkpoint, Location
from viewer.stores.errors import LocationUnreadable
from viewer.stores.location_reader import open_reader
from viewer.stores.protocol import Entry


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
