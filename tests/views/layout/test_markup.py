"""Every screen is valid HTML, and every id that a label, a link or a swap names exists."""

import re
from itertools import pairwise
from pathlib import Path

import html5lib
import pytest
from django.conf import LazySettings
from django.test import Client, RequestFactory
from django.urls import reverse
from django.views.defaults import server_error

from viewer.models import Job, Location, Problem, Project, Run, Sweep, Team
from viewer.records.collections import MAX_NOTE, Subject, add_items, collection_named

TABS = ("output", "overview", "tasks", "inputs", "state", "events", "raw")


def errors_in(html: str) -> list[str]:
    """Return the errors of a strict parser with the surrounding markup."""
    parser = html5lib.HTMLParser()
    parser.parse(html)
    return [f"{position}: {code} {details}" for position, code, details in parser.errors]


def ids_of(html: str) -> list[str]:
    return re.findall(r'\sid="([^"]+)"', html)


def described_by(html: str) -> set[str]:
    """Return the ids of the labels and descriptions that the page names."""
    found = re.findall(r'aria-(?:labelledby|describedby|controls)="([^"]+)"', html)
    return {name for names in found for name in names.split()}


@pytest.fixture
def addresses(crew_location: Location, crew_run: Run, tmp_path: Path) -> list[str]:
    Problem.objects.create(
        location=crew_location, source_key="x.json", reason="It breaks off.", kind="broken"
    )
    crew_location.project = Project.objects.create(
        folder=str(tmp_path), interpreter="/usr/bin/python3", entry_points=["crew:build"]
    )
    crew_location.project.confirm(None)
    crew_location.save()
    checkpoint = crew_run.checkpoints.latest("row")
    job = Job.objects.create(kind="fork", location=crew_location, run=crew_run, branch="what-if")
    group = Sweep.objects.create(name="tone", checkpoint=checkpoint)
    for word in ("tea", "milk"):
        one = Job.objects.create(kind="fork", location=crew_location, run=crew_run, branch=f"tone/{word}")
        Job.objects.filter(pk=one.pk).update(sweep=group, variation=f"topic: {word}", result=word)
    run = crew_run.get_absolute_url()
    return [
        reverse("locations"),
        reverse("jobs"),
        job.get_absolute_url(),
        *(reverse(name, args=[checkpoint.pk]) for name in ("fork", "resume", "new-sweep")),
        group.get_absolute_url(),
        reverse("project", args=[crew_location.uid]),
        crew_location.get_absolute_url(),
        *(f"{run}?tab={tab}" for tab in TABS),
        f"{run}?tab=tasks&as=source",
        f"{run}?view=graph",
        f"{run}?only=failed",
        f"{run}?at=nothing",
    ]


def test_screens_are_valid_html(reader: Client, addresses: list[str]) -> None:
    for address in addresses:
        assert errors_in(reader.get(address).content.decode()) == [], address


def test_login_and_missing_pages_are_valid_html(client: Client, reader: Client, db: None) -> None:
    assert errors_in(reader.get("/nothing/").content.decode()) == []
    assert errors_in(Client().get(reverse("login")).content.decode()) == []


def test_the_error_page_is_valid_html_and_needs_no_database() -> None:
    answer = server_error(RequestFactory().get("/"))
    assert answer.status_code == 500
    assert "Your checkpoints are unchanged" in answer.content.decode()
    assert errors_in(answer.content.decode()) == []


def test_ids_are_unique_and_references_exist(reader: Client, addresses: list[str]) -> None:
    for address in addresses:
        html = reader.get(address).content.decode()
        ids = ids_of(html)
        assert len(ids) == len(set(ids)), address
        named = re.findall(r'(?:hx-target|hx-include|href)="#([^"]+)"', html) + re.findall(
            r'\sfor="([^"]+)"', html
        )
        assert set(named) <= set(ids), address
        assert described_by(html) <= set(ids), address


def test_what_describes_a_refused_field_is_on_the_page(
    runner: Client, crew_location: Location, addresses: list[str], settings: LazySettings
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    collection = collection_named("teas", None)
    checkpoint = crew_location.checkpoints.latest("row")
    add_items(collection, [Subject(checkpoint)], None)
    queued = Job.objects.create(kind="fork", location=crew_location, branch="later", status="queued")
    long, place = "x" * (MAX_NOTE + 1), [crew_location.uid]
    refused: dict[str, dict[str, str]] = {
        reverse("project-isolation", args=place): {"launcher": "x", "network": "hosts", "allow": "x y:z"},
        reverse("project", args=place): {"folder": "x"},
        reverse("collection-change", args=[collection.pk]): {"name": ""},
        reverse("collection-item", args=[collection.items.get().pk]): {"note": long},
        reverse("bulk-fork"): {"checkpoint": str(checkpoint.pk), "part": "x", "name": "x" * 999},
        reverse("token-new"): {"name": ""},
        reverse("account-mail"): {"address": "x"},
        reverse("role-give"): {"holder": "person", "name": "eve\x1b", "level": "1"},
        reverse("invitation-new"): {"level": "", "days": "7"},
        reverse("team-change"): {"team": "", "name": ""},
        reverse("team-quotas", args=[Team.objects.create(name="ours").pk]): {"runs": "0"},
        reverse("collection-new"): {"name": " "},
        reverse("notifications-save"): {"kind": "webhook", "address": "x"},
        reverse("search-save"): {"name": " ", "query": "q=tea"},
        reverse("job-start", args=[queued.pk]): {"start": "later", "start_at": "yesterday"},
    }
    for address, fields in refused.items():
        answer = runner.post(address, fields)
        html = answer.content.decode()
        ids = ids_of(html)
        assert answer.status_code == 422 and 'aria-invalid="true"' in html, address
        assert described_by(html) <= set(ids) and len(ids) == len(set(ids)), address


def test_no_heading_level_is_skipped(reader: Client, addresses: list[str]) -> None:
    for address in [*addresses, "/nothing/"]:
        levels = [int(level) for level in re.findall(r"<h([1-6])", reader.get(address).content.decode())]
        assert levels[0] == 1, address
        assert all(after <= before + 1 for before, after in pairwise(levels)), (address, levels)


def test_each_screen_has_one_heading_and_a_title(reader: Client, addresses: list[str]) -> None:
    for address in addresses:
        html = reader.get(address).content.decode()
        assert html.count("<h1") == 1, address
        assert re.search(r"<title>\S.* · Forkline</title>", html), address
