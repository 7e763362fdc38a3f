"""From a path to a location that can be imported."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from django.db import connection
from django.utils.translation import gettext as _

from viewer.engines import DEFAULT, ENGINES
from viewer.importing.file_urls import NotLocal, path_of
from viewer.importing.limits import address_at
from viewer.messages.labels import told
from viewer.models import Location
from viewer.stores.location_reader import LocationReader, open_reader
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, LocationUnreadable
from viewer.stores.safe_open import Identity

# Of how many files or rows a new location's engine is recognised.
MAX_PROBED = 5


class UnknownLocation(Exception):
    """There is nothing to import at this path, or it may not be opened. Its message tells a person why."""


def open_location(path: str | Path, roots: Sequence[Path] | None = None) -> Location:
    """The location at this path, added if it is new. Without roots any path is trusted.

    A person who names it means what is there now, so a location that was replaced is accepted.
    Raises UnknownLocation.
    """
    found = permitted_path(path, roots)
    known = Location.objects.filter(path=str(found)).first()
    if known is not None and not known.identity:
        return known
    try:
        kind, identity, engine = what_is_at(found)
    except LocationUnreadable as error:
        if known is not None:
            return known
        raise UnknownLocation(told(error)) from None
    if known is None:
        defaults = {"provider": kind, "identity": identity, "engine": engine}
        return Location.objects.get_or_create(path=str(found), defaults=defaults)[0]
    if known.provider == kind and not is_same(known.identity, identity):
        known.pin(identity)
    return known


def what_is_at(path: Path) -> tuple[str, str, str]:
    """The kind of store at a path, its identity, and the name of its engine. Raises LocationUnreadable."""
    with open_reader(address_at(path)) as store:
        return store.kind, str(store.identity), _recognised_engine(store)


def _recognised_engine(store: LocationReader) -> str:
    """The engine of the first checkpoints that can be read; the default if none can."""
    if len(ENGINES) == 1:
        return next(iter(ENGINES))
    entries = [entry for entry in islice(store.entries(), MAX_PROBED) if isinstance(entry, Entry)]
    found = (one.snapshot.engine for one in store.read_all(entries, 1) if isinstance(one, Packed))
    return next(found, DEFAULT)


def is_same(recorded: str, found: str) -> bool:
    """Whether both texts are identities of one folder or file."""
    first, second = Identity.parse(recorded), Identity.parse(found)
    return first is not None and second is not None and first.matches(second)


def permitted_path(path: str | Path, roots: Sequence[Path] | None) -> Path:
    """The path without links, inside one of the roots where there are any. Raises UnknownLocation."""
    try:
        found = path_of(path).expanduser().resolve()
        # A name that is no UTF-8 cannot be stored, or shown.
        str(found).encode()
    except NotLocal as error:
        raise UnknownLocation(str(error)) from None
    except (OSError, ValueError, RuntimeError):
        raise UnknownLocation(_("This is no path that can be opened.")) from None
    # Links are resolved by now, so that one inside a root cannot lead out of it.
    if roots is not None and not any(found.is_relative_to(root.resolve()) for root in roots):
        raise UnknownLocation(
            _("This path is outside the folders that may be opened here (CHECKPOINT_ROOTS): %(roots)s")
            % {"roots": ", ".join(str(root) for root in roots) or "-"}
        )
    if _is_own_database(found):
        raise UnknownLocation(_("This is Forkline's own database, which holds no checkpoints of an engine."))
    return found


def _is_own_database(path: Path) -> bool:
    """Whether it is our database, or a file of it. Opening and closing one would end the locks on it."""
    name = str(connection.settings_dict["NAME"])
    for own in (name, f"{name}-wal", f"{name}-shm", f"{name}-journal"):
        try:
            if path.samefile(own):
                return True
        except (OSError, ValueError):
            continue
    return False
