"""From a path to a location that can be imported."""

from collections.abc import Sequence
from pathlib import Path

from django.db import connection
from django.utils.translation import gettext as _

from viewer.importing.file_urls import NotLocal, path_of
from viewer.importing.limits import limits
from viewer.models import Location
from viewer.providers import provider_for
from viewer.providers.snapshot import LocationUnreadable
from viewer.wording import told


class UnknownLocation(Exception):
    """There is nothing to import at this path, or it may not be opened. Its message tells a person why."""


def open_location(path: str | Path, roots: Sequence[Path] | None = None) -> Location:
    """The location at this path, added if it is new. Without roots any path is trusted.

    Raises UnknownLocation.
    """
    found = permitted_path(path, roots)
    known = Location.objects.filter(path=str(found)).first()
    if known is not None:
        return known
    try:
        kind = provider_for(found, limits()).kind
    except LocationUnreadable as error:
        raise UnknownLocation(told(error)) from None
    return Location.objects.get_or_create(path=str(found), defaults={"provider": kind})[0]


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
