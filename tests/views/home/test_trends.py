"""The trends of the last days and the reasons of failures on the home page."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from viewer.messages.message import UserMessage, plain_text
from viewer.models import Job, Location, Project, Run
from viewer.presentation import trends
from viewer.presentation.trends import overview


def make_run(location: Location, days_ago: int, **columns: Any) -> Run:
    at = timezone.now() - timedelta(days=days_ago)
    values = {"first_at": at, "last_at": at, "entity": "crew", "key": f"run {Run.objects.count()}"}
    return Run.objects.create(location=location, **values | columns)


def make_failure(location: Location, error: UserMessage | None, **columns: Any) -> Job:
    values = {"kind": Job.Kind.FORK, "location": location, "project": location.project}
    ended = {"status": Job.Status.FAILED, "ended_at": timezone.now(), "error": error}
    return Job.objects.create(**values | ended | columns)


def text_of(client: Client) -> str:
    return client.get("/").content.decode()


def test_nothing_is_shown_without_a_recent_run(runner: Client, location: Location) -> None:
    make_run(location, 31, tokens=5)
    make_failure(location, plain_text("ValueError"), ended_at=timezone.now() - timedelta(days=31))
    assert not overview() and "trends-title" not in text_of(runner)


def test_each_day_has_a_bar_and_the_total_is_of_all_days(runner: Client, location: Location) -> None:
    for days_ago, tokens, seconds in ((0, 1000, 10), (0, 500, 30), (3, 3000, 20)):
        make_run(location, days_ago, tokens=tokens, seconds=seconds, cost=tokens / 1000)
    found = overview()
    by_cost, by_tokens, by_time = found.trends
    totals = [one.total for one in (by_cost, by_tokens, by_time)]
    assert found.days == 30 and totals == ["$4.50", "4,500", "20 s"]
    assert [bar.height for bar in by_tokens.bars] == [100, 50]
    assert [round(bar.x / (100 / 30)) for bar in by_tokens.bars] == [26, 29]
    assert by_time.bars[-1].title.endswith(": 20 s")
    page = text_of(runner)
    assert "Last 30 days" in page and page.count('class="trend-bar"') == 6
    assert 'aria-label="Cost by day"' in page


def test_what_no_run_has_is_left_out(location: Location) -> None:
    make_run(location, 1, tokens=10)
    make_run(location, 1, tokens=10, parent=Run.objects.get())
    assert [(one.label, one.total) for one in overview().trends] == [("Tokens", "10")]


def test_with_many_runs_only_whole_days_are_shown(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trends, "MAX_RUNS", 3)
    for days_ago in (0, 1, 2, 2):
        make_run(location, days_ago, tokens=1)
    found = overview()
    assert found.days == 2 and found.trends[0].total == "2"
    for _more in range(3):
        make_run(location, 0, tokens=1)
    assert overview().days == 1


def test_reasons_are_counted_by_project_and_kind(runner: Client, location: Location, tmp_path: Path) -> None:
    other = Project.objects.create(folder=str(tmp_path / "other"))
    for text in ("ValueError: a <b>", "ValueError: c", "KeyError: 'x'"):
        make_failure(location, plain_text(f"{text}\nsecond line"))
    make_failure(location, plain_text("ValueError: d"), project=other)
    make_failure(location, UserMessage("job.thread_continued", {}), status=Job.Status.INTERRUPTED)
    make_failure(location, None, project=None)
    make_failure(location, plain_text("Ignored: e"), status=Job.Status.CANCELLED)
    found = overview().reasons
    assert [one.count for one in found] == [2, 1, 1, 1, 1]
    assert found[0].text == "ValueError: c" and found[0].source == location.project
    assert {one.source for one in found} == {location.project, other, None}
    assert "No reason was recorded." in {one.text for one in found}
    page = text_of(runner)
    assert found[0].newest.get_absolute_url() in page and "Ignored" not in page


def test_failed_runs_of_other_programs_are_counted_once(runner: Client, location: Location) -> None:
    other = Location.objects.create(path="/elsewhere/<b>", store_kind="json", engine="crewai")
    oldest, _completed, of_job, cancelled = (
        make_run(location, 2, status=one) for one in ("failed", "completed", "failed", "failed")
    )
    make_failure(location, plain_text("ValueError"), run=of_job)
    make_failure(location, None, run=cancelled, status=Job.Status.CANCELLED)
    newest = make_run(location, 1, status="failed")
    make_run(other, 0, status="failed")
    make_run(location, 0, status="failed", parent=oldest)
    make_run(location, 31, status="failed")
    found = [(one.count, one.text, one.source, one.newest) for one in overview().reasons]
    assert found[0] == (2, "Failed in another program", location.project, newest)
    assert {(count, source) for count, _text, source, _newest in found[1:]} == {
        (1, location.project),
        (1, other),
    }
    page = text_of(runner)
    assert newest.get_absolute_url() in page and "Why runs failed" in page and "/elsewhere/<b>" not in page


def test_texts_of_projects_are_escaped(runner: Client, location: Location) -> None:
    make_failure(location, plain_text("<script>alert(1)</script>" + "x" * 5000))
    page = text_of(runner)
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    shown = re.search(r'title="&lt;script&gt;[^"]*"', page)
    assert shown and len(shown[0]) < 500


def test_the_page_reads_the_same_few_rows_of_many(location: Location) -> None:
    for number in range(3):
        make_run(location, number, tokens=1)
        make_failure(location, plain_text(f"Error{number}"))
    with CaptureQueriesContext(connection) as queries:
        assert overview()
    assert len(queries) == 2 and all(" LIMIT " in one["sql"] for one in queries)
    for number in range(3):
        make_run(location, number, status="failed")
    with CaptureQueriesContext(connection) as queries:
        assert overview()
    assert len(queries) == 5


def test_runs_of_the_future_hide_no_day(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "MAX_RUNS", 1)
    make_run(location, 0, tokens=5)
    # The time is what a checkpoint says.
    make_run(location, 0, tokens=7, last_at=datetime(9998, 12, 31, tzinfo=UTC))
    assert [one.total for one in overview().trends] == ["5"]
