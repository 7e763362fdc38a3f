"""A host of a pool starts and reads only what it recognises as the location of the others."""

import shutil
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.jobs.conftest import MakeJob
from tests.real_stores import copy_of
from tests.terminal import Terminal
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.pools import poll_pools, recognise, take_over
from viewer.host.jobs.starting import launch, request_of
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import address_of, identity_here
from viewer.host.worker import register
from viewer.launching.start import move_start
from viewer.messages.message import UserMessage
from viewer.models import Host, Job, Location, Pool, PoolMember, Project
from viewer.postgresql import rows_identity
from viewer.presentation.jobs.status import wait_of
from viewer.records.hosts import PoolRefused, change_pool, claimants, next_job


@pytest.fixture
def here(transactional_db: None) -> Host:
    return register("gpu-1", 4, ["shared"])


@pytest.fixture
def other(here: Host) -> Host:
    """Return another host of the pool, which is up."""
    host = Host.objects.create(name="gpu-2", instance="elsewhere", is_up=True, seen_at=Now(), slots=4)
    host.pools.set(Pool.objects.all())
    return host


@pytest.fixture
def location(here: Host, project: Project, tmp_path: Path, settings: Settings) -> Location:
    """Return a real folder in an allowed folder, which has been imported."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = open_location(copy_of("1.15.30/json", tmp_path))
    location.project = project
    location.save()
    import_location(location)
    return location


@pytest.fixture
def shared(location: Location, other: Host) -> Location:
    """Return the location as if the other host read it, which sees the same folder with another device."""
    change_pool(location, Pool.objects.get())
    own = Host.own()
    assert own
    mine = recognise(location, own)
    device, inode, _filesystem = mine.identity.split(":")
    identity = f"{int(device) + 1}:{inode}:0"
    PoolMember.objects.create(
        location=location, host=other, identity=identity, project_digest=mine.project_digest
    )
    Location.objects.filter(pk=location.pk).update(host=other, identity=identity)
    Project.objects.update(host=other)
    return Location.objects.select_related("project", "host", "pool").get()


def refusal(location: Location) -> str:
    own = Host.own()
    assert own
    return str(recognise(location, own).refusal or "")


def test_the_same_folder_is_recognised_although_its_device_differs(shared: Location) -> None:
    assert refusal(shared) == ""
    assert identity_here(shared) != shared.identity and address_of(shared).identity
    assert not import_location(shared).read_error


def test_a_copy_at_the_same_path_is_refused(shared: Location, make_job: MakeJob) -> None:
    job = make_job()
    path = Path(shared.path)
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    assert "There is something else at" in refusal(shared)
    assert next_job() is None and launch(job) is None and not job.claim()
    # Nobody is asked to accept it instead of the folder of the other host.
    import_location(shared)
    assert Location.objects.get().replaced_by == ""


def test_a_folder_that_was_replaced_after_it_was_recognised_starts_nothing(
    shared: Location, make_job: MakeJob
) -> None:
    job = make_job()
    assert refusal(shared) == "" and next_job() == job
    Path(shared.path).rename(Path(shared.path).with_name("away"))
    Path(shared.path).mkdir()
    assert launch(job) is None and Job.objects.get().status == Job.Status.QUEUED


def test_other_source_or_secrets_are_refused(shared: Location, project: Project) -> None:
    (Path(project.folder) / "crew.py").write_text("changed = True")
    assert "source or secrets differ" in refusal(shared)
    (Path(project.folder) / "crew.py").unlink()
    assert refusal(shared) == ""
    (Path(project.folder) / ".env").write_text("OPENAI_API_KEY=sk-another-key-of-this-machine")
    Project.objects.update(environment_file=str(Path(project.folder) / ".env"))
    assert "source or secrets differ" in refusal(Location.objects.get())


def test_a_location_outside_the_allowed_folders_is_refused(shared: Location, settings: Settings) -> None:
    settings.CHECKPOINT_ROOTS = [Path(shared.path) / "main"]
    assert "outside the folders" in refusal(shared)


def test_a_location_without_checkpoints_is_not_recognised(shared: Location) -> None:
    shared.checkpoints.all().delete()
    assert "no checkpoints yet" in refusal(shared)


def test_nothing_is_recognised_before_its_host_has_reported(shared: Location, other: Host) -> None:
    PoolMember.objects.filter(host=other).delete()
    assert "gpu-2 has not reported yet" in refusal(shared)


def test_a_job_is_claimed_by_a_member_and_not_after_the_pool_was_left(
    shared: Location, make_job: MakeJob
) -> None:
    first, second = make_job(), make_job()
    assert next_job() == first and first.claim() and first.host == Host.own()
    change_pool(shared, None)
    assert next_job() is None and not second.claim()
    assert Job.objects.get(pk=first.pk).runs_on == Host.own()


def test_a_job_that_another_host_claims_meanwhile_is_left_to_it(
    shared: Location, other: Host, make_job: MakeJob
) -> None:
    """Its runner has no lock on this machine, so it would look as if it had exited."""
    job = make_job()
    assert next_job() == job
    Job.objects.update(status=Job.Status.STARTING, host=other)
    ensure_finished(job)
    assert Job.objects.get().status == Job.Status.STARTING


def test_a_host_that_left_the_pool_claims_nothing(shared: Location, make_job: MakeJob) -> None:
    job = make_job()
    register("gpu-1", 4)
    assert next_job() is None and not job.claim()


def test_a_claim_that_another_host_may_have_lost_waits_for_a_person(
    shared: Location, make_job: MakeJob
) -> None:
    job = make_job()
    Job.objects.update(queued_in="the primary")
    for database in ("the standby", ""):
        assert not job.claim(database)
        wait = wait_of(Job.objects.get())
        assert wait and wait.needs_a_person and "another host has started it" in wait.text
    # Not even if the pool is left meanwhile, or another start time is chosen.
    Location.objects.update(host=Host.own())
    change_pool(Location.objects.get(), None)
    assert move_start(job, None) and not job.claim("the standby")
    assert job.claim("the primary")


def test_a_job_that_one_host_may_claim_does_not_depend_on_the_database(
    shared: Location, make_job: MakeJob
) -> None:
    """Only that host can have started it, and it knows whether it did."""
    job = make_job()
    Job.objects.update(queued_in="the primary", host=Host.own())
    assert wait_of(Job.objects.get()) is not None and job.claim("the standby")


def test_a_job_that_was_queued_before_its_location_joined_a_pool_stays_with_its_host(
    location: Location, other: Host, make_job: MakeJob
) -> None:
    job = make_job()
    change_pool(location, Pool.objects.get())
    job.refresh_from_db()
    assert job.host == location.host and job.claim("any")


def test_without_a_pool_only_the_host_of_the_location_may_claim_a_job(location: Location, here: Host) -> None:
    assert claimants(location, None) == {"host_id": location.host_id}
    change_pool(location, Pool.objects.get())
    shared = Location.objects.get()
    identity = rows_identity()
    # A database that does not say which one it is, as SQLite.
    assert claimants(shared, None) == ({"queued_in": identity} if identity else {"host_id": shared.host_id})


def test_a_location_is_taken_over_once_its_host_is_away_or_drained(shared: Location, other: Host) -> None:
    poll_pools()
    assert Location.objects.get().host == other
    other.change_drained(is_drained=True)
    poll_pools()
    found = Location.objects.select_related("host", "project__host").get()
    assert found.host == Host.own() == (found.project and found.project.host)
    assert not import_location(found).read_error
    # Its former host comes back, and nothing changes.
    other.change_drained(is_drained=False)
    poll_pools()
    assert Location.objects.get().host == Host.own()


def test_nothing_is_taken_over_from_a_host_that_is_back(shared: Location) -> None:
    own = Host.own()
    assert own and refusal(shared) == "" and not take_over(shared, own)


def test_what_cannot_be_shared_is_refused(location: Location, other: Host) -> None:
    pool = Pool.objects.create(name="others")
    with pytest.raises(PoolRefused, match="gpu-1 is not in the pool others"):
        change_pool(location, pool)
    Location.objects.update(store_kind="sqlite")
    with pytest.raises(PoolRefused, match="SQLite file"):
        change_pool(Location.objects.get(), Pool.objects.get(name="shared"))


def test_a_database_on_the_machine_itself_is_refused(shared: Location, settings: Settings) -> None:
    from viewer.host.jobs.pools import NotRecognised, _server_digest

    Location.objects.update(path="postgresql:one", store_kind="postgresql")
    found = Location.objects.get()
    for local in (
        "host=localhost dbname=a",
        "dbname=a",
        "host=/run/postgresql",
        "host=127.0.0.1",
        "service=a",
    ):
        settings.POSTGRESQL_LOCATIONS = {"one": local}
        with pytest.raises(NotRecognised):
            _server_digest(found)
    settings.POSTGRESQL_LOCATIONS = {"one": "host=db.example dbname=a password=x"}
    first = _server_digest(found)
    settings.POSTGRESQL_LOCATIONS = {"one": "postgresql://user@db.example:5432/a"}
    assert _server_digest(found) == first
    settings.POSTGRESQL_LOCATIONS = {"one": "host=db2.example dbname=a"}
    assert _server_digest(found) != first


def test_a_fork_of_a_draft_is_of_the_host_that_has_it(
    shared: Location, other: Host, make_job: MakeJob
) -> None:
    draft = make_job()
    Job.objects.filter(pk=draft.pk).update(host=other, status=Job.Status.SUCCEEDED)
    checkpoint = shared.checkpoints.all()[0]
    checkpoint.source_key = f"{checkpoint.SCRATCH}{draft.pk}/thread/one"
    checkpoint.save()
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=shared,
        project=shared.project,
        branch="two",
        checkpoint=checkpoint,
        **claimants(shared, checkpoint),
    )
    assert job.host == other and next_job() is None and not job.claim()
    # The web server that stored the request has another data folder.
    job.request = {"checkpoint": {"id": "one", "source": "/elsewhere/scratch.db#one"}}
    assert request_of(job)["checkpoint"]["source"] == checkpoint.source


def test_a_draft_whose_host_has_left_the_pool_starts_nothing(shared: Location, make_job: MakeJob) -> None:
    """What is at the path of the location on that host may be something else."""
    job = make_job()
    Job.objects.update(host=Host.own())
    change_pool(shared, None)
    job.refresh_from_db()
    assert launch(job) is None and Job.objects.get().status == Job.Status.QUEUED
    wait = wait_of(Job.objects.get())
    assert wait and "gpu-2 has not reported yet" in wait.text


def test_pages_and_the_terminal_show_and_change_the_pool(
    shared: Location, runner: Client, terminal: Terminal
) -> None:
    page = runner.get(shared.get_absolute_url()).content.decode()
    assert "pool shared" in page and "Only gpu-2" in page
    assert "pool shared" in runner.get(reverse("hosts")).content.decode()
    address = reverse("location-pool", args=[shared.uid])
    runner.post(address, {"pool": ""})
    assert Location.objects.get().pool is None
    runner.post(address, {"pool": str(Pool.objects.get().pk)})
    assert Location.objects.get().pool == Pool.objects.get()
    terminal.text("hosts", "--no-pool", f"gpu-2:{shared.path}")
    assert Location.objects.get().pool is None
    document = terminal.document("hosts", "--pool", "shared", f"gpu-2:{shared.path}")
    assert document["hosts"][0]["pools"] == ["shared"]
    assert Location.objects.get().pool == Pool.objects.get()
    assert "No host has joined" in terminal.refused("hosts", "--pool", "x", f"gpu-2:{shared.path}")["error"]
    assert "not a location" in terminal.refused("hosts", "--pool", "shared", "/nowhere")["error"]
    refused = UserMessage("pool.no_checkpoints")
    PoolMember.objects.create(location=shared, host=shared.host, refusal=refused)
    assert "It has no checkpoints yet" in runner.get(reverse("hosts")).content.decode()
    assert "gpu-2: It has no checkpoints yet" in runner.get(shared.get_absolute_url()).content.decode()
