"""Pages and the terminal show hosts, once there are several."""

import re
from datetime import timedelta
from html import unescape
from typing import Any, NoReturn
from uuid import uuid4

import html5lib
import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.terminal import Terminal
from viewer.cli.commands.doctor import of_hosts
from viewer.host.worker import register
from viewer.host_requests import HostAway, Report, Request
from viewer.models import Comment, Host, Job, Location, Run
from viewer.presentation.jobs.status import hint, status_label, wait_of
from viewer.records.hosts import give_up

pytestmark = pytest.mark.django_db


@pytest.fixture
def here() -> Host:
    return register("gpu-1", 4)


@pytest.fixture
def other(here: Host) -> Host:
    """Return a host of another machine, which was seen now."""
    host = Host.objects.create(
        name="gpu-2", instance="elsewhere", address="gpu-2.local", is_up=True, seen_at=Now(), slots=2
    )
    host.refresh_from_db()
    return host


@pytest.fixture
def location(other: Host) -> Location:
    return Location.objects.create(path="/checkpoints", store_kind="postgresql", host=other)


def go_away(host: Host) -> None:
    Host.objects.filter(pk=host.pk).update(seen_at=Now() - timedelta(hours=1))
    host.refresh_from_db()


def text_of(client: Client, address: str) -> str:
    page = client.get(address).content.decode()
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_with_one_host_nothing_of_it_is_shown(reader: Client, here: Host) -> None:
    location = Location.objects.create(path="/checkpoints", store_kind="json", host=here)
    job = Job.objects.create(kind=Job.Kind.RUN, location=location)
    for address in (reverse("home"), reverse("locations"), reverse("jobs"), job.get_absolute_url()):
        assert "gpu-1" not in text_of(reader, address) and reverse("hosts") not in address
    # The page is there all the same.
    assert "gpu-1 taking jobs" in text_of(reader, reverse("hosts"))


def test_a_page_shows_where_a_location_and_a_job_are(reader: Client, location: Location, other: Host) -> None:
    job = Job.objects.create(kind=Job.Kind.RUN, location=location)
    addresses = [
        *(reverse("locations"), location.get_absolute_url(), reverse("jobs"), job.get_absolute_url()),
    ]
    for address in addresses:
        shown = text_of(reader, address)
        assert "on gpu-2" in shown and "on gpu-2 away" not in shown, address
    go_away(other)
    for address in addresses:
        assert "on gpu-2 away" in text_of(reader, address), address


def test_the_page_of_hosts_shows_what_they_report(reader: Client, location: Location, other: Host) -> None:
    Host.objects.filter(pk=other.pk).update(
        load=0.5,
        clock_difference=-3600,
        version="0.1.0",
        python_version="3.12.1",
        engines={"crewai": ["1.15"]},
    )
    Job.objects.create(kind=Job.Kind.RUN, location=location, status=Job.Status.RUNNING)
    Job.objects.create(kind=Job.Kind.RUN, location=location)
    shown = text_of(reader, reverse("hosts"))
    assert "gpu-2 taking jobs gpu-2.local" in shown and "1 of 2 running · 1 queued" in shown
    assert "Forkline 0.1.0, Python 3.12.1 , CrewAI 1.15" in shown and "0.50" in shown
    assert "1 h behind the database's" in shown and "It runs Forkline 0.1.0" in shown
    go_away(other)
    assert "gpu-2 away gpu-2.local" in text_of(reader, reverse("hosts"))


def test_a_host_is_drained_and_resumed(runner: Client, location: Location, other: Host) -> None:
    job = Job.objects.create(kind=Job.Kind.RUN, location=location)
    address = reverse("host-drain", args=[other.pk])
    assert "takes no new jobs" in runner.post(address, {"drained": "yes"}, follow=True).content.decode()
    job = Job.objects.select_related("location__host").get()
    wait = wait_of(job)
    assert wait and wait.text == "for gpu-2, which takes no new jobs now"
    assert "gpu-2 drained" in text_of(runner, reverse("hosts"))
    runner.post(address, {"drained": "no"})
    other.refresh_from_db()
    assert not other.is_drained


def test_a_form_that_needs_a_host_which_is_away_can_be_submitted_again(
    runner: Client, location: Location, settings: Settings
) -> None:
    run = Run.objects.create(location=location, uid=uuid4(), key="run")
    settings.HOST = "tests.hosts.test_pages.away"
    address = reverse("comments", args=[run.uid]) + "add/"
    typed = {"text": 'Look at "this" & <that>', "reply_to": ""}
    refused = runner.post(address, typed)
    assert refused.status_code == 503 and not Comment.objects.exists()
    form = html5lib.parse(refused.content.decode(), namespaceHTMLElements=False).find(".//form")
    assert form is not None and form.get("action") == address
    fields = {one.get("name"): one.get("value") for one in form.iter("input")}
    assert "csrfmiddlewaretoken" in fields
    assert {name: fields[name] for name in typed} == typed
    assert "<form" not in runner.get(reverse("project", args=[location.uid])).content.decode()


def test_a_queued_job_says_that_its_host_is_away(location: Location, other: Host) -> None:
    job = Job.objects.create(kind=Job.Kind.RUN, location=location)
    wait = wait_of(job)
    assert wait and wait.kind == "moment"
    go_away(other)
    wait = wait_of(Job.objects.get())
    assert wait and wait.text.startswith("for gpu-2, which has not answered since ")


def test_a_job_of_a_host_that_went_away_is_stalled_until_a_person_decides(
    runner: Client, location: Location, other: Host
) -> None:
    job = Job.objects.create(kind=Job.Kind.RUN, location=location, status=Job.Status.RUNNING)
    assert status_label(job) == "running" and not give_up(job)
    # Two missing heartbeats may be a busy moment; after three, a minute has not passed.
    Host.objects.filter(pk=other.pk).update(seen_at=Now() - timedelta(seconds=20))
    assert status_label(job) == "running"
    go_away(other)
    job = Job.objects.get()
    assert status_label(job) == "stalled" and "nothing starts it again" in hint(job)
    assert "Mark as interrupted" in text_of(runner, job.get_absolute_url())
    runner.post(reverse("job-give-up", args=[job.pk]))
    job.refresh_from_db()
    assert job.status == Job.Status.INTERRUPTED and "gpu-2 did not answer" in str(job.error)
    # If it runs still, its host ends it when it is back.
    assert job.cancel_requested_at is not None


def test_a_running_job_of_this_machine_is_never_stalled(here: Host, other: Host) -> None:
    location = Location.objects.create(path="/checkpoints", store_kind="json", host=here)
    job = Job.objects.create(kind=Job.Kind.RUN, location=location, status=Job.Status.RUNNING)
    go_away(here)
    assert status_label(job) == "running"


def test_only_a_host_that_is_away_and_has_nothing_is_removed(
    runner: Client, terminal: Terminal, here: Host, other: Host
) -> None:
    address = reverse("host-remove", args=[other.pk])
    for refused in (address, reverse("host-remove", args=[here.pk])):
        assert "Only a host that is away" in text_of_post(runner, refused)
    go_away(other)
    location = Location.objects.create(path="/checkpoints", store_kind="json", host=other)
    assert "Only a host that is away" in text_of_post(runner, address)
    assert "Only a host" in terminal.refused("hosts", "--remove", "gpu-2")["error"]
    location.delete()
    assert "Remove" in text_of(runner, reverse("hosts"))
    assert "Removed gpu-2." in text_of_post(runner, address)
    assert list(Host.objects.values_list("name", flat=True)) == ["gpu-1"]


def text_of_post(client: Client, address: str) -> str:
    return client.post(address, follow=True).content.decode()


def test_the_terminal_lists_and_drains_hosts(terminal: Terminal, location: Location, other: Host) -> None:
    listed = terminal.text("hosts")
    assert "gpu-1  taking jobs  last heartbeat" in listed and "gpu-2  taking jobs" in listed
    document = {one["name"]: one for one in terminal.document("hosts", "--drain", "gpu-2")["hosts"]}
    assert (document["gpu-2"]["is_drained"], document["gpu-2"]["locations"]) == (True, 1)
    assert "gpu-2  taking jobs" in terminal.text("hosts", "--resume", "gpu-2")
    assert terminal.refused("hosts", "--drain", "gpu-3")["error"] == "There is no host gpu-3."


def test_doctor_reports_a_host_that_is_away_while_jobs_wait(location: Location, other: Host) -> None:
    assert list(of_hosts()) == []
    go_away(other)
    assert list(of_hosts()) == []
    Job.objects.create(kind=Job.Kind.RUN, location=location)
    (found,) = of_hosts()
    assert found.state == "warning" and "gpu-2, which has not answered since" in found.text


def away(request: Request[Any], report: Report | None = None, host: int | None = None) -> NoReturn:
    raise HostAway("host.away", host="gpu-2")


def test_a_page_that_needs_a_host_that_is_away_names_it(
    runner: Client, location: Location, settings: Settings
) -> None:
    settings.HOST = "tests.hosts.test_pages.away"
    page = runner.get(reverse("project", args=[location.uid]))
    assert page.status_code == 503 and b"The host gpu-2 does not answer." in page.content
    assert page["Retry-After"]
