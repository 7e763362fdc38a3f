"""A thread of the worker that lists and describes the rest of runs, and makes stored copies."""

from contextlib import AbstractContextManager

from viewer.data_folder.changes import in_background
from viewer.host.locations.copying import RETRY_SECONDS, copy_some
from viewer.host.locations.describing import STEP_SECONDS, describe_runs, locations_to_describe
from viewer.host.locations.importing import import_run
from viewer.models import Location, Run

QUIET_SECONDS = 0.1


def completing_imports() -> AbstractContextManager[None]:
    """Complete what imports leave for later, in a thread within the block."""
    return in_background("completing-imports", complete_some, QUIET_SECONDS, RETRY_SECONDS)


def complete_some() -> bool:
    """List, describe and copy some of what is due. Returns whether there may be more to do."""
    partly = Run.objects.filter(is_partly_listed=True, location__in=Location.objects.here())
    for run in partly.select_related("location"):
        import_run(run)
    has_described = [
        describe_runs(location, max_seconds=STEP_SECONDS) for location in locations_to_describe()
    ]
    return copy_some() or any(has_described)
