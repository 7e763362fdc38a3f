"""Taking a location off the list: only where all that is kept of it can be read again."""

from django.db import transaction
from django.utils.translation import gettext as _

from viewer.importing.import_lock import import_lock
from viewer.importing.importing import import_location
from viewer.models import Checkpoint, Location


class WouldBeLost(Exception):
    """Something is kept of the location that stands nowhere else. Its message says what."""


def remove_location(location: Location) -> None:
    """Delete the rows and stored copies of a location. What stands at its path is not touched.

    Raises WouldBeLost where some of it could not be read there again.
    """
    import_location(location)
    with import_lock(location), transaction.atomic():
        location.refresh_from_db()
        if reason := removal_blocker(location):
            raise WouldBeLost(reason)
        location.delete()


def removal_blocker(location: Location) -> str:
    """Why the location has to stay, as far as its last import tells; empty where it need not."""
    if location.jobs.exists():
        return _("Jobs ran here, and what is kept of them would go with it.")
    copies = location.checkpoints.all()
    if not location.read_error:
        copies = copies.exclude(state=Checkpoint.State.PRESENT)
    if copies.exists():
        return _(
            "Some of its checkpoints cannot be read at its path any more: only the copies kept here are left."
        )
    return ""
