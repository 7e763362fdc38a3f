"""Change the path of a location whose folder or file was moved. Its runs, notes and links stay."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from django.utils.translation import gettext as _

from viewer.importing.addresses import address_at, is_indexed
from viewer.importing.import_lock import import_lock
from viewer.importing.location_list.locations import UnknownLocation, is_same, permitted_path
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location
from viewer.stores.errors import LocationUnreadable
from viewer.stores.location_reader import LocationReader, open_reader
from viewer.stores.protocol import Entry

# How many entries at the new path are compared with the known ones.
MAX_COMPARED = 20_000


def change_path(location: Location, path: str | Path, roots: Sequence[Path] | None = None) -> None:
    """Read the location at another path from now on: there must be what was at the old one.

    Raises UnknownLocation.
    """
    found = permitted_path(path, roots)
    if Location.objects.filter(path=str(found)).exclude(pk=location.pk).exists():
        raise UnknownLocation(_("%(path)s is already a location.") % {"path": found})
    if location.jobs.unfinished().exists():
        raise UnknownLocation(_("A job of this location has not ended. Change the path after that."))
    try:
        with import_lock(location), open_reader(address_at(found)) as reader:
            if reader.kind != location.store_kind or not _holds(reader, location):
                raise UnknownLocation(
                    _("None of its checkpoints are at %(path)s. Add that as a new location.")
                    % {"path": found}
                )
            location.move(str(found), str(reader.identity))
    except LocationUnreadable as error:
        raise UnknownLocation(translate(error)) from None


def _holds(reader: LocationReader, location: Location) -> bool:
    """Whether it is the same folder or file, has one of the known checkpoints, or none are known."""
    if is_same(location.identity, str(reader.identity)) or not location.runs.exists():
        return True
    if is_indexed(location):
        keys = {run.key for run in reader.runs().runs}
        return any(key in keys for key in location.runs.values_list("key", flat=True).iterator())
    known = set(
        location.checkpoints.exclude(source_key__startswith=Checkpoint.SCRATCH).values_list(
            "source_key", flat=True
        )
    )
    entries = islice(reader.entries(), MAX_COMPARED)
    return any(entry.key in known for entry in entries if isinstance(entry, Entry))
