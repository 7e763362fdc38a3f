"""A thread that imports what was requested, lists the rest of partly listed runs, and makes stored copies."""

from contextlib import AbstractContextManager

from viewer.changes.background import in_background
from viewer.importing.importing import import_location, import_run
from viewer.importing.stored_copies.copying import POLL_SECONDS, copy_some
from viewer.models import Location, Run

QUIET_SECONDS = 0.1


def importing_in_background() -> AbstractContextManager[None]:
    """Import in a thread within the block."""
    return in_background("importing", import_requested, QUIET_SECONDS, POLL_SECONDS)


def import_requested() -> bool:
    """Import what was requested, and copy a few checkpoints. Returns whether there may be more to do."""
    for run in Run.objects.filter(is_partly_listed=True).select_related("location"):
        import_run(run)
    for location in Location.objects.filter(import_state=Location.ImportState.REQUESTED):
        import_location(location, wait=False)
    return copy_some()
