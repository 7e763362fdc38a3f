"""The real names of a checkpoint whose row shows them without a secret. Never stored."""

from dataclasses import dataclass
from pathlib import Path

from viewer.engines import engine_name, store_format_named
from viewer.importing.limits import address_of
from viewer.models import Checkpoint, Location
from viewer.stores.location_reader import open_reader
from viewer.stores.protocol import Entry, LocationUnreadable


@dataclass(frozen=True, slots=True)
class UnredactedSource:
    """Where the engine finds a checkpoint. ``branch`` is empty where only the checkpoint says it."""

    checkpoint_id: str
    source: str
    branch: str = ""


def unredacted_source(checkpoint: Checkpoint) -> UnredactedSource:
    """The checkpoint's place in its location; as its row shows it where it is not there any more."""
    location = checkpoint.location
    try:
        with open_reader(address_of(location)) as store:
            found = store.entry(checkpoint.source_key)
    except LocationUnreadable:
        found = None
    if not isinstance(found, Entry):
        return UnredactedSource(checkpoint.checkpoint_id, checkpoint.source)
    store_format = store_format_named(engine_name(location))
    if location.provider == Location.Provider.SQLITE:
        outside = store_format.outside_of_row(found.place, None, "")
        return UnredactedSource(outside.checkpoint_id, f"{location.path}#{found.place}")
    outside = store_format.outside_of_file(found.place)
    return UnredactedSource(outside.checkpoint_id, str(Path(location.path) / found.place), outside.branch)
