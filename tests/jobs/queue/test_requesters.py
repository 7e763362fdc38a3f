"""A run has the rights of the person who started it. If they lose them, it waits for an admin's decision."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.jobs.conftest import MakeJob
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.starting import actor_of
from viewer.launching.start import continue_job
from viewer.models import Checkpoint, Job, Level, Location, Role, Run
from viewer.presentation.jobs.status import wait_of
from viewer.records.hosts import next_job


def member(name: str, level: Level, location: Location | None = None) -> User:
    person = User.objects.create_user(name)
    Role.objects.create(user=person, level=level, location=location)
    return person


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """Return a queued job that Eve requested, who was an operator."""
    job = make_job("succeeds.py")
    eve = member("eve", Level.OPERATOR)
    Job.objects.filter(pk=job.pk).update(requested_by=eve, requester_key=eve.pk)
    return Job.objects.get(pk=job.pk)


def _takes_role(eve: User) -> None:
    eve.roles.all().update(level=Level.VIEWER)


def _deactivates(eve: User) -> None:
    User.objects.filter(pk=eve.pk).update(is_active=False)


def _deletes(eve: User) -> None:
    eve.delete()


@pytest.mark.parametrize("leaves", [_takes_role, _deactivates, _deletes])
def test_the_waiting_job_of_who_left_starts_when_an_admin_continues_it(
    job: Job, leaves: Callable[[User], None]
) -> None:
    assert next_job() == job and wait_of(job).kind != "admin"  # type: ignore[union-attr]
    assert not continue_job(job, member("otto", Level.ADMIN))
    assert job.requested_by
    leaves(job.requested_by)
    ensure_finished(job)
    job = Job.objects.get(pk=job.pk)
    wait = wait_of(job)
    assert job.status == "queued" and next_job() is None
    assert wait and wait.needs_a_person and wait.text.startswith("for an admin: ")
    ada = member("ada", Level.ADMIN)
    assert continue_job(job, ada)
    # Its rights are the admin's from now on.
    ada.roles.all().delete()
    assert next_job() is None
    Role.objects.create(user=ada, level=Level.ADMIN)
    job = Job.objects.get(pk=job.pk)
    assert next_job() == job and actor_of(job)["name"] == "ada"
    ensure_finished(job)
    assert job.status == "succeeded" and not continue_job(job, ada)


def test_only_an_admin_of_its_location_may_continue_it(job: Job, location: Location) -> None:
    eve = job.requested_by
    assert eve
    _takes_role(eve)
    elsewhere = Location.objects.create(path="/elsewhere", store_kind=Location.StoreKind.JSON)
    people = {
        "operator": (member("olga", Level.OPERATOR), 403, False),
        "of another location": (member("otto", Level.ADMIN, elsewhere), 404, None),
        "admin": (member("ada", Level.ADMIN, location), 302, True),
    }
    client, address = Client(), reverse("job-continue", args=[job.pk])
    for person, status, is_offered in people.values():
        client.force_login(person)
        addresses = (job.get_absolute_url(), reverse("jobs"), reverse("home"))
        pages = [client.get(shown).content.decode() for shown in addresses]
        if is_offered is not None:
            text = "for an admin: eve may no longer start it"
            assert all(text in page for page in pages)
            assert {address in page for page in pages} == {is_offered}
        assert client.post(address).status_code == status
        job.refresh_from_db()
        assert (job.continued_by == person) == (status == 302)


def test_many_jobs_of_who_left_do_not_delay_others(job: Job, make_job: MakeJob) -> None:
    ready = make_job()
    assert job.requested_by
    _takes_role(job.requested_by)
    assert next_job() == ready


def test_a_held_job_does_not_delay_one_from_a_checkpoint_of_another_location(
    job: Job, make_job: MakeJob, location: Location
) -> None:
    """Who may run a fork depends on the location of its checkpoint as well."""
    eve = job.requested_by
    assert eve
    eve.roles.all().delete()
    jobs = []
    for name in ("closed", "open"):
        source = Location.objects.create(path=f"/{name}", store_kind=Location.StoreKind.JSON)
        run = Run.objects.create(location=source, key=name, entity="crew", name=name)
        checkpoint = Checkpoint.objects.create(
            location=source,
            run=run,
            source_key=name,
            fingerprint="1",
            checkpoint_id=name,
            branch="main",
            entity="crew",
        )
        jobs.append(make_job())
        requested = {"requested_by": eve, "requester_key": eve.pk}
        Job.objects.filter(pk=jobs[-1].pk).update(checkpoint=checkpoint, **requested)
    job.delete()
    for where in (location, Location.objects.get(path="/open")):
        Role.objects.create(user=eve, level=Level.OPERATOR, location=where)
    assert next_job() == jobs[1]
