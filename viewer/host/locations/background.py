"""A thread that imports what was requested, lists and describes the rest of runs, and makes stored copies."""

from contextlib import AbstractContextManager

from viewer.data_folder.changes import in_background
from viewer.host.locations.copying import POLL_SECONDS, copy_some
from viewer.host.locations.describing import STEP_SECONDS, describe_runs, locations_to_describe
from viewer.host.locations.importing import import_location, import_run
from viewer.models import Location, Run

QUIET_SECONDS = 0.1


def importing_in_background() -> AbstractContextManager[None]:
    """Import in a thread within the block."""
    return in_background("importing", import_requested, QUIET_SECONDS, POLL_SECONDS)


def import_requested() -> bool:
    """Import what was requested, describe and copy some of it. Returns whether there may be more to do."""
    for run in Run.objects.filter(is_partly_listed=True).select_related("location"):
        import_run(run)
    for location in Location.objects.filter(import_state=Location.ImportState.REQUESTED):
        import_location(location, wait=False)
    has_described = [
        describe_runs(location, max_seconds=STEP_SECONDS) for location in locations_to_describe()
    ]
    return copy_some() or any(has_described)
