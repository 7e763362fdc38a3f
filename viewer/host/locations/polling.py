"""Imports additions to a folder since this process last listed it, without a complete listing."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from viewer.host.locations.addresses import read_limits
from viewer.host.locations.updating import ImportSummary, update_all, update_some
from viewer.host.reading.location_reader import LocationReader
from viewer.models import Location
from viewer.stores.json_folder import KnownFolders

# Each poll lists a smaller folder completely, which takes milliseconds.
MIN_FILES = 500
# A poll that finds more new files lists the folder completely, and shows progress.
MAX_ADDED = 400
# The maximum share of time for complete listings, and the maximum seconds between two of them. Only
# complete listings find files that were overwritten in place.
LISTING_SHARE, MAX_LISTING_INTERVAL = 0.02, 300.0
# The number of folders that one process remembers. Each file takes 8 bytes.
MAX_REMEMBERED = 100


@dataclass(slots=True)
class _Listed:
    """A location as of this process's last listing."""

    folders: KnownFolders
    # Other values on which the rows of a location depend.
    context: Sequence[str]
    # The real keys of entries that have to be read again.
    read_again: Sequence[str]
    # When the next complete listing is due, on the monotonic clock.
    due_at: float


_listed: OrderedDict[UUID, _Listed] = OrderedDict()


def update_polled(location: Location, reader: LocationReader) -> ImportSummary:
    """Update the rows of an open location as one of many polls. The listing is remembered.

    Requires the import lock. Raises LocationUnreadable.
    """
    # Whatever fails from here on leads to a complete listing.
    listed = _listed.pop(location.uid, None)
    if reader.kind == "json" and listed and _is_current(listed, location):
        keys = reader.added(listed.folders)
        if keys is not None and len(keys) <= MAX_ADDED:
            summary = update_some(location, reader, sorted({*keys, *listed.read_again}))
            _remember(location, listed, summary)
            return summary
    folders, context = KnownFolders(), _context(location)
    summary = update_all(location, reader, folders)
    if len(folders) >= MIN_FILES and not summary.is_cancelled:
        interval = min(summary.listing_seconds / LISTING_SHARE, MAX_LISTING_INTERVAL)
        _remember(location, _Listed(folders, context, (), time.monotonic() + interval), summary)
    return summary


def _is_current(listed: _Listed, location: Location) -> bool:
    is_due = time.monotonic() >= listed.due_at
    return not is_due and not location.import_state and listed.context == _context(location)


def _context(location: Location) -> Sequence[str]:
    return location.identity, location.engine, location.secrets_digest, read_limits().mark


def _remember(location: Location, listed: _Listed, summary: ImportSummary) -> None:
    if summary.read_again is None:
        return
    listed.read_again = summary.read_again
    _listed[location.uid] = listed
    while len(_listed) > MAX_REMEMBERED:
        _listed.popitem(last=False)
