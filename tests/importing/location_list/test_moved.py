"""A location is read at another path only if what it had is there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_stores import STORES
from viewer.host.locations.adding import change_path
from viewer.host.locations.importing import import_location
from viewer.host_requests import UnknownLocation
from viewer.models import Job, Location

Imported = Callable[[str], Location]


def test_a_copy_of_the_location_takes_its_place(crew_location: Location, tmp_path: Path) -> None:
    copy = shutil.copytree(crew_location.path, tmp_path / "copy")
    before = list(crew_location.checkpoints.values_list("pk", "checkpoint_id", "state"))
    change_path(crew_location, copy)
    import_location(crew_location)
    assert Location.objects.get().path == str(copy)
    assert list(crew_location.checkpoints.values_list("pk", "checkpoint_id", "state")) == before


def test_another_store_does_not_take_its_place(crew_location: Location, tmp_path: Path) -> None:
    other = shutil.copytree(STORES / "1.15.30/flow", tmp_path / "other")
    (tmp_path / "empty").mkdir()
    for path in (other, tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(UnknownLocation):
            change_path(crew_location, path)
    assert Location.objects.get().path == crew_location.path


def test_a_path_of_another_location_and_one_with_a_job_are_refused(
    crew_location: Location, imported: Imported, tmp_path: Path
) -> None:
    other = imported("1.15.30/flow")
    with pytest.raises(UnknownLocation, match="is already a location"):
        change_path(crew_location, other.path)
    Job.objects.create(kind=Job.Kind.FORK, location=crew_location, branch="b", status=Job.Status.QUEUED)
    with pytest.raises(UnknownLocation, match="has not ended"):
        change_path(crew_location, shutil.copytree(crew_location.path, tmp_path / "copy"))
