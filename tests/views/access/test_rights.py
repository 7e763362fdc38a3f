"""The right to run: who has it, how it is granted and revoked, and how open pages follow it."""

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from viewer.models import Access, Checkpoint, Job, Level, Location, Right, Run
from viewer.records.accounts import owner, teammate
from viewer.records.permissions import may
from viewer.web.live.feeds import JobFeed, RowsFeed, location_group


def has_right(name: str) -> bool:
    return may(User.objects.get(username=name), Right.RUN)


def test_a_new_user_is_read_only_until_the_right_is_granted(db: None) -> None:
    call_command("login_link", "ada")
    assert not has_right("ada")
    call_command("login_link", "ada", "--may", "run")
    assert has_right("ada")
    call_command("login_link", "ada")
    assert has_right("ada"), "One more link changes nothing."
    call_command("login_link", "ada", "--may", "view")
    assert not has_right("ada")


def test_the_owner_can_run(db: None) -> None:
    assert may(owner(), Right.RUN)
    with pytest.raises(CommandError, match="--may needs a user name"):
        call_command("login_link", "--may", "run")


def test_an_inactive_user_has_no_rights(db: None) -> None:
    ada = teammate("ada", "run")
    ada.is_active = False
    ada.save()
    assert not has_right("ada")


def test_a_changed_right_applies_to_the_next_request(
    reader: Client, checkpoint: Checkpoint, location: Location
) -> None:
    fork = reverse("fork", args=[checkpoint.pk])
    assert reader.get(fork).status_code == 403
    teammate("reader", "run")
    assert reader.get(fork).status_code == 200
    teammate("reader", "view")
    assert reader.post(fork, {"branch": "what-if"}).status_code == 403
    assert not Job.objects.exists()


def test_pages_of_read_only_users_say_so(reader: Client, crew_run: Run) -> None:
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert "Read-only" in page and "Run again" not in page
    teammate("reader", "run")
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert "Read-only" not in page and "Run again" in page


def test_open_pages_of_read_only_users_receive_no_buttons(location: Location) -> None:
    assert location.project
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=location, project=location.project, status=Job.Status.RUNNING
    )
    for allowed in (False, True, False):
        whole = JobFeed(job.pk, after=0, whole=True, can_run=allowed).next_message()
        bar = RowsFeed(
            location_group(location.uid, Access(everywhere=Level.VIEWER)), can_run=allowed
        ).next_message()
        for message in (whole, bar):
            assert (reverse("job-cancel", args=[job.pk]) in (message or "")) == allowed
