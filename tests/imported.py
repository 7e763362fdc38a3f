"""Locations that tests import."""

from pathlib import Path

from viewer.host.locations.adding import open_location
from viewer.host.locations.completing import describe_runs
from viewer.host.locations.importing import import_location
from viewer.models import Location


def imported_location(path: Path | str) -> Location:
    """Return the location at this path with everything in it imported, as a worker imports it."""
    location = open_location(path)
    assert import_location(location).read_error is None
    describe_runs(location)
    location.refresh_from_db()
    return location


def observe_once() -> None:
    """Import what is new at all locations, as the worker does when they have changed."""
    for location in Location.objects.all():
        import_location(location, wait=False)
