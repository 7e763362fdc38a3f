"""The table of jobs: filters, order, search and pages, all in its address."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from viewer.models import Job, Location, Question
from viewer.presentation.jobs.pages import JOBS_A_PAGE, job_list

NOW = timezone.now()


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    return Location.objects.create(path=str(tmp_path), store_kind="json")


def add(location: Location, branch: str, status: str, minutes: int = 0, **values: object) -> Job:
    """Create a job that was requested so long after NOW."""
    at = NOW + timedelta(minutes=minutes)
    return Job.objects.create(
        kind="fork", location=location, branch=branch, status=status, created_at=at, **values
    )


def listed(address: str = "") -> list[str]:
    return [job.branch for job in job_list(QueryDict(address)).page]


def test_the_newest_job_is_on_top(location: Location) -> None:
    add(location, "old", "failed")
    add(location, "new", "failed", 1)
    assert listed() == ["new", "old"] == listed("sort=unknown&only=unknown")


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("waiting", {"asking", "breakpoint"}),
        ("queued", {"queued"}),
        ("running", {"running"}),
        ("failed", {"failed", "interrupted"}),
        ("completed", {"succeeded"}),
        ("cancelled", {"cancelled"}),
    ],
)
def test_each_filter_shows_its_jobs(location: Location, only: str, expected: set[str]) -> None:
    for status in ("queued", "running", "failed", "interrupted", "succeeded", "cancelled"):
        add(location, status, status)
    asking = add(location, "asking", "running")
    Question.objects.create(job=asking, number=1, asked_at=NOW)
    add(location, "breakpoint", "succeeded", stopped_before=["draft"])
    assert set(listed(f"only={only}")) == expected


def test_columns_sort_with_unknown_values_last(location: Location) -> None:
    add(location, "short", "succeeded", started_at=NOW, ended_at=NOW + timedelta(seconds=1), cost=0.5)
    add(location, "long", "succeeded", started_at=NOW, ended_at=NOW + timedelta(hours=1), cost=0.1)
    add(location, "never", "queued")
    assert listed("sort=-duration") == ["long", "short", "never"]
    assert listed("sort=cost") == ["long", "short", "never"]
    assert listed("sort=job") == ["long", "never", "short"]


def test_the_search_finds_branches_and_ids(location: Location) -> None:
    add(location, "tea-2031", "failed")
    other = add(location, "milk", "failed")
    assert listed("q=TEA") == ["tea-2031"]
    assert listed(f"q={other.pk}") == ["milk"]


def test_a_heading_sorts_the_other_way_round_on_the_first_page(db: None) -> None:
    (heading,) = [one for one in job_list(QueryDict("sort=cost&page=3")).headings if one.sorted]
    assert (heading.url, heading.sorted) == ("?sort=-cost", "ascending")


def test_the_table_is_live_and_paged(reader: Client, location: Location) -> None:
    for number in range(JOBS_A_PAGE + 1):
        add(location, f"fork-{number}", "failed", number)
    page = reader.get("/jobs/").content.decode()
    assert 'ws-connect="/ws/home/"' in page and "?page=2" in page
    table = reader.get("/jobs/?page=2", headers={"HX-Target": "job-list"}).content.decode()
    assert table.lstrip().startswith("<section") and "fork-0<" in table and "fork-1<" not in table


def test_no_match_offers_all_jobs(reader: Client, location: Location) -> None:
    add(location, "tea", "failed")
    assert "No job matches." in reader.get("/jobs/?q=coffee").content.decode()
