"""A thread that imports locations whose import was requested."""

from contextlib import AbstractContextManager

from viewer.changes.background import in_background
from viewer.importing.importing import import_location
from viewer.models import Location

QUIET_SECONDS = 0.1


def importing_in_background() -> AbstractContextManager[None]:
    """Import requested locations in a thread within the block."""
    return in_background("importing", import_requested, QUIET_SECONDS)


def import_requested() -> bool:
    """Import the locations whose import was requested. Returns False: nothing more is due until a change."""
    for location in Location.objects.filter(import_state=Location.ImportState.REQUESTED):
        import_location(location, wait=False)
    return False
