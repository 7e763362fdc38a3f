"""Removes a location if all of its stored data can be read again from the source."""

from django.db import transaction
from django.utils.translation import gettext as _

from viewer.importing.import_lock import import_lock
from viewer.importing.importing import import_location
from viewer.models import Checkpoint, Location


class WouldBeLost(Exception):
    """Some stored data of the location exists nowhere else. The message says which."""


def remove_location(location: Location) -> None:
    """Delete the rows and stored copies of a location. Nothing at its path is changed.

    Raises WouldBeLost if some of it could not be read again.
    """
    import_location(location)
    with import_lock(location), transaction.atomic():
        location.refresh_from_db()
        if reason := removal_blocker(location):
            raise WouldBeLost(reason)
        location.delete()


def removal_blocker(location: Location) -> str:
    """Why the location cannot be removed, as of its last import; empty if it can."""
    if location.jobs.exists():
        return _("Jobs ran here, and their records would be deleted with it.")
    # Without stored copies, only data that the source still has would be deleted.
    copies = location.checkpoints.filter(stored_copy__isnull=False).exclude(state=Checkpoint.State.NO_COPY)
    if not location.read_error:
        copies = copies.exclude(state=Checkpoint.State.PRESENT)
    if copies.exists():
        return _(
            "Some of its checkpoints can no longer be read at its path. Only their stored copies remain."
        )
    return ""
