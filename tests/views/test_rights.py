"""The right to run: who has it, how it is given and taken, and what an open page shows without it."""

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.urls import reverse

from viewer.access.login_links import owner, teammate
from viewer.access.permissions import can_run
from viewer.live import job_feed, location_feed
from viewer.models import Checkpoint, Job, Location, Run


def may(name: str) -> bool:
    return can_run(User.objects.get(username=name))


def test_a_teammate_may_look_until_the_right_is_given(db: None) -> None:
    call_command("login_link", "ada")
    assert not may("ada")
    call_command("login_link", "ada", "--may", "run")
    assert may("ada")
    call_command("login_link", "ada")
    assert may("ada"), "One more link changes nothing."
    call_command("login_link", "ada", "--may", "view")
    assert not may("ada")


def test_whose_dashboard_it_is_may_run(db: None) -> None:
    assert can_run(owner())
    with pytest.raises(CommandError, match="--may needs a name"):
        call_command("login_link", "--may", "run")


def test_who_is_shut_out_may_nothing(db: None) -> None:
    ada = teammate("ada", "run")
    ada.is_active = False
    ada.save()
    assert not may("ada")


def test_the_right_counts_from_the_next_request_on(
    reader: Client, checkpoint: Checkpoint, location: Location
) -> None:
    fork = reverse("fork", args=[checkpoint.pk])
    assert reader.get(fork).status_code == 403
    teammate("reader", "run")
    assert reader.get(fork).status_code == 200
    teammate("reader", "view")
    assert reader.post(fork, {"branch": "what-if"}).status_code == 403
    assert not Job.objects.exists()


def test_a_page_says_that_it_can_only_be_read(reader: Client, crew_run: Run) -> None:
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert "Read-only" in page and "Run again" not in page
    teammate("reader", "run")
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert "Read-only" not in page and "Run again" in page


def test_an_open_page_is_sent_no_buttons_that_its_reader_may_not_press(location: Location) -> None:
    assert location.project
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=location, project=location.project, status=Job.Status.RUNNING
    )
    for allowed in (False, True, False):
        whole = job_feed.next_message(job_feed.JobFeed(job.pk, after=0, whole=True, can_run=allowed))
        bar = location_feed.next_message(location_feed.feed_for(location.uid, (), can_run=allowed))
        for message in (whole, bar):
            assert (reverse("job-cancel", args=[job.pk]) in (message or "")) == allowed


def test_whoever_could_log_in_before_there_was_the_right_keeps_it(transactional_db: None) -> None:
    executor = MigrationExecutor(connection)
    newest = executor.loader.graph.leaf_nodes()
    executor.migrate([("viewer", "0002_runs_and_questions")])
    User.objects.create_user("ada")
    executor = MigrationExecutor(connection)
    executor.migrate(newest)
    assert may("ada")
    User.objects.create_user("otto")
    assert not may("otto")
