"""Removing a location is refused if it would lose anything, and changes nothing at its path."""

import shutil
from pathlib import Path

from django.test import Client
from django.urls import reverse

from tests.engine_runs.runs import marks
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location, import_one
from viewer.models import Checkpoint, Job, Location, StoredCopy


def forget(runner: Client, location: Location) -> str:
    """Remove the location and return the resulting page."""
    answer = runner.post(reverse("location-remove", args=[location.uid]), follow=True)
    return answer.content.decode()


def test_a_location_is_removed_with_its_rows_and_can_be_added_again(
    runner: Client, crew_location: Location
) -> None:
    path, address = Path(crew_location.path), crew_location.runs.get().get_absolute_url()
    before = marks(path)
    assert "Remove location" in runner.get(crew_location.get_absolute_url()).content.decode()
    page = forget(runner, crew_location)
    assert f"Removed {path}." in page
    assert not Location.objects.exists()
    assert not Checkpoint.objects.exists()
    assert not StoredCopy.objects.exists()
    assert marks(path) == before
    import_location(open_location(path))
    assert runner.get(address).status_code == 200


def test_a_location_with_pruned_checkpoints_is_not_removed(runner: Client, crew_location: Location) -> None:
    pruned = crew_location.checkpoints.earliest("row")
    # The location is read once more first.
    Path(pruned.source).unlink()
    assert "Only their stored copies remain" in forget(runner, crew_location)
    pruned.refresh_from_db()
    assert pruned.state == Checkpoint.State.PRUNED
    assert StoredCopy.objects.filter(pk=pruned.pk).exists()


def test_a_missing_location_is_not_removed(runner: Client, crew_location: Location) -> None:
    shutil.move(crew_location.path, f"{crew_location.path}-elsewhere")
    assert "Only their stored copies remain" in forget(runner, crew_location)
    assert crew_location.checkpoints.count() == 6


def test_a_location_with_jobs_is_not_removed_and_shows_the_reason(
    runner: Client, crew_location: Location
) -> None:
    Job.objects.create(kind="fork", location=crew_location, branch="x", status=Job.Status.FAILED)
    page = runner.get(crew_location.get_absolute_url()).content.decode()
    assert "Jobs ran here" in page
    assert reverse("location-remove", args=[crew_location.uid]) not in page
    assert "Jobs ran here" in forget(runner, crew_location)
    assert Location.objects.filter(pk=crew_location.pk).exists()


def test_a_removed_location_is_not_imported(runner: Client, crew_location: Location) -> None:
    source = crew_location.checkpoints.earliest("row").source
    forget(runner, Location.objects.get(pk=crew_location.pk))
    assert import_location(crew_location).added == 0
    assert import_one(crew_location, source).added == 0
    assert not Checkpoint.objects.exists()
