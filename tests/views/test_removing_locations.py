"""Taking a location off the list: it goes where nothing is lost by it, and nothing at its path is touched."""

import shutil
from pathlib import Path

from django.test import Client
from django.urls import reverse

from tests.engine_runs.runs import marks
from viewer.importing import import_location, import_one, open_location
from viewer.models import Checkpoint, CheckpointBody, Job, Location


def forget(runner: Client, location: Location) -> str:
    """The page that is led to."""
    answer = runner.post(reverse("location-remove", args=[location.uid]), follow=True)
    return answer.content.decode()


def test_it_goes_with_its_rows_and_copies_and_can_be_added_again(
    runner: Client, crew_location: Location
) -> None:
    path, address = Path(crew_location.path), crew_location.runs.get().get_absolute_url()
    before = marks(path)
    assert "Remove location" in runner.get(crew_location.get_absolute_url()).content.decode()
    page = forget(runner, crew_location)
    assert f"Removed {path}." in page
    assert not Location.objects.exists()
    assert not Checkpoint.objects.exists()
    assert not CheckpointBody.objects.exists()
    assert marks(path) == before
    import_location(open_location(path))
    assert runner.get(address).status_code == 200


def test_what_is_only_kept_here_keeps_it(runner: Client, crew_location: Location) -> None:
    pruned = crew_location.checkpoints.earliest("row")
    # It was not looked at since: that is made up for first.
    Path(pruned.source).unlink()
    assert "Only their stored copies are left" in forget(runner, crew_location)
    pruned.refresh_from_db()
    assert pruned.state == Checkpoint.State.PRUNED
    assert CheckpointBody.objects.filter(pk=pruned.pk).exists()


def test_a_location_that_vanished_stays(runner: Client, crew_location: Location) -> None:
    shutil.move(crew_location.path, f"{crew_location.path}-elsewhere")
    assert "Only their stored copies are left" in forget(runner, crew_location)
    assert crew_location.checkpoints.count() == 6


def test_where_jobs_ran_it_stays_and_says_so_before(runner: Client, crew_location: Location) -> None:
    Job.objects.create(kind="fork", location=crew_location, branch="x", status=Job.Status.FAILED)
    page = runner.get(crew_location.get_absolute_url()).content.decode()
    assert "Jobs ran here" in page
    assert reverse("location-remove", args=[crew_location.uid]) not in page
    assert "Jobs ran here" in forget(runner, crew_location)
    assert Location.objects.filter(pk=crew_location.pk).exists()


def test_who_still_looks_at_it_reads_nothing_more(runner: Client, crew_location: Location) -> None:
    source = crew_location.checkpoints.earliest("row").source
    forget(runner, Location.objects.get(pk=crew_location.pk))
    assert import_location(crew_location).added == 0
    assert import_one(crew_location, source).added == 0
    assert not Checkpoint.objects.exists()
