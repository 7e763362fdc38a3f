"""The home page: what needs a person, what runs, what failed, and the table of all runs."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.views.forking import CREW, stored
from viewer.messages.message import plain_text
from viewer.models import Checkpoint, Job, Location, Question, Run
from viewer.web.live import feeds

HOME = "/"
AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def text_of(client: Client, address: str = HOME) -> str:
    return client.get(address).content.decode()


def make_run(location: Location, number: int, **columns: Any) -> Run:
    at = AT + timedelta(minutes=number)
    values: dict[str, Any] = {"name": "article", "first_at": at, "last_at": at, "entity": "crew"}
    return Run.objects.create(location=location, key=f"run {number}", **values | columns)


def make_job(location: Location, **columns: Any) -> Job:
    values: dict[str, Any] = {"kind": Job.Kind.FORK, "location": location, "branch": "what-if"}
    return Job.objects.create(**values | columns)


def names_in_order(page: str, names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: page.index(f">{name}<"))


def test_without_locations_the_page_offers_to_add_one(runner: Client, reader: Client) -> None:
    assert "No locations yet" in text_of(runner)


def test_a_question_is_listed_with_a_link_to_its_answer(runner: Client, location: Location) -> None:
    job = make_job(location, run=make_run(location, 1), status=Job.Status.RUNNING)
    question = Question.objects.create(job=job, number=1, kind="human_input", prompt="Publish the draft?")
    page = text_of(runner)
    assert "Publish the draft?" in page and question.get_absolute_url() in page
    assert "waiting for you" in page


def cancel_forms(page: str) -> set[str]:
    """Return the addresses to which the page's buttons cancel."""
    return set(re.findall(r'action="([^"]+/cancel/)"', page))


def test_every_job_that_has_not_ended_can_be_cancelled(runner: Client, location: Location) -> None:
    late = timezone.now() - timedelta(days=2)
    running = {"status": Job.Status.RUNNING}
    columns: list[dict[str, Any]] = [running, running, {}, {"start_at": late}, {"status": Job.Status.FAILED}]
    asking, shown_running, queued, missed, ended = (
        make_job(location, run=make_run(location, number), branch=f"b{number}", **each)
        for number, each in enumerate(columns)
    )
    Question.objects.create(job=asking, number=1, kind="human_input", prompt="Publish?")
    shown = cancel_forms(text_of(runner))
    assert shown == {reverse("job-cancel", args=[one.pk]) for one in (asking, shown_running, queued, missed)}
    for address in shown:
        assert runner.post(address, headers={"HX-Request": "true"}).status_code == 204
    queued.refresh_from_db()
    missed.refresh_from_db()
    assert {queued.status, missed.status} == {Job.Status.CANCELLED} != {ended.status}
    page = text_of(runner)
    # Those that run are asked to end, and wait for that.
    assert not cancel_forms(page) and page.count("Cancelling…") == 2


def test_a_reader_cannot_cancel_on_the_home_page(reader: Client, location: Location) -> None:
    job = make_job(location, status=Job.Status.RUNNING)
    make_job(location, branch="other")
    Question.objects.create(job=job, number=1, kind="human_input", prompt="Publish?")
    assert not cancel_forms(text_of(reader))


def test_a_requested_cancellation_refreshes_open_home_pages(runner: Client, location: Location) -> None:
    job = make_job(location, status=Job.Status.RUNNING)
    feed = feeds.RowsFeed(feeds.HOME)
    feed.next_message()
    assert feed.next_message() is None
    job.request_cancel()
    assert feed.next_message() is not None


def test_a_failed_job_is_listed_until_it_is_repeated(runner: Client, location: Location) -> None:
    checkpoint = stored(location, CREW)
    same: dict[str, Any] = {"run": checkpoint.run, "checkpoint": checkpoint, "project": location.project}
    make_job(location, **same, status=Job.Status.FAILED, error=plain_text("The model answered 429."))
    page = text_of(runner)
    assert "The model answered 429." in page and "?retry=" in page
    make_job(location, **same, status=Job.Status.SUCCEEDED)
    assert "The model answered 429." not in text_of(runner)


def test_a_failed_run_that_was_continued_is_no_failure_any_more(runner: Client, location: Location) -> None:
    checkpoint = stored(location, CREW)
    Checkpoint.objects.update(is_branch_head=True)
    Run.objects.update(status=Run.Status.FAILED)
    fork = make_job(location, run=checkpoint.run, checkpoint=checkpoint, branch="tea", status="failed")
    assert "continued by" not in text_of(runner)
    Job.objects.filter(pk=fork.pk).update(status="succeeded")
    page = text_of(runner)
    assert "continued by tea" in page and "No failed run is left to retry." in page
    assert "No run matches." in runner.get(reverse("home"), {"only": "failed"}).content.decode()


def test_a_failed_job_whose_branch_was_resumed_is_no_failure_any_more(
    runner: Client, location: Location
) -> None:
    first, last = stored(location, CREW), stored(location, CREW)
    failed: dict[str, Any] = {"run": first.run, "checkpoint": first, "status": Job.Status.FAILED}
    make_job(location, kind=Job.Kind.RESUME, branch="main", error=plain_text("It answered 429."), **failed)
    assert "It answered 429." in text_of(runner)
    make_job(location, kind=Job.Kind.RESUME, branch="main", run=last.run, checkpoint=last, status="succeeded")
    assert "It answered 429." not in text_of(runner)


@pytest.mark.parametrize(
    ("is_at_end", "status", "is_listed"),
    [(True, "succeeded", False), (True, "cancelled", True), (False, "succeeded", True)],
)
def test_only_a_fork_of_the_end_that_was_not_cancelled_continues_a_failed_job(
    runner: Client, location: Location, is_at_end: bool, status: str, is_listed: bool
) -> None:
    first, last = stored(location, CREW), stored(location, CREW)
    Checkpoint.objects.filter(pk=first.pk).update(is_branch_head=False)
    Checkpoint.objects.filter(pk=last.pk).update(is_branch_head=True)
    failed: dict[str, Any] = {"run": last.run, "checkpoint": last, "status": Job.Status.FAILED}
    make_job(location, kind=Job.Kind.RESUME, branch="main", error=plain_text("It answered 429."), **failed)
    forked = last if is_at_end else first
    make_job(location, branch="tea", run=forked.run, checkpoint=forked, status=status)
    assert ("It answered 429." in text_of(runner)) == is_listed


def test_a_failed_run_names_the_unit_that_failed(runner: Client, location: Location) -> None:
    checkpoint = stored(location, CREW)
    Checkpoint.objects.update(trigger="task_failed", subject="Draft the article", is_branch_head=True)
    Run.objects.update(status=Run.Status.FAILED)
    page = text_of(runner)
    assert "Draft the article" in page and checkpoint.branch in page


def test_rows_show_the_inputs_that_differ_among_runs_of_a_name(runner: Client, location: Location) -> None:
    make_run(location, 1, inputs=[["year", "2026"], ["topic", "tea"]])
    make_run(location, 2, inputs=[["year", "2026"], ["topic", "milk"]])
    make_run(location, 3, name="interview", inputs=[["", "Who uses this?"]])
    page = text_of(runner)
    assert "topic: tea" in page and "topic: milk" in page and "“Who uses this?”" in page
    assert ">year: 2026" not in page


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", ["c", "b", "a"]),
        ("updated", ["a", "b", "c"]),
        ("-tokens", ["a", "c", "b"]),
        ("duration", ["b", "a", "c"]),
        ("run", ["a", "b", "c"]),
        ("-location", ["c", "b", "a"]),
        ("status", ["b", "c", "a"]),
        ("nonsense", ["c", "b", "a"]),
    ],
)
def test_headings_sort_the_runs(runner: Client, location: Location, sort: str, order: list[str]) -> None:
    make_run(location, 1, name="a", tokens=300, seconds=20, status=Run.Status.COMPLETED)
    make_run(location, 2, name="b", tokens=100, seconds=10, status=Run.Status.FAILED)
    make_run(location, 3, name="c", tokens=200)
    page = text_of(runner, f"{reverse('home')}?sort={sort}")
    assert names_in_order(page[page.index("run-table") :], ["a", "b", "c"]) == order


@pytest.mark.parametrize(
    ("only", "shown"),
    [
        ("", {"waits", "runs", "grows", "fails", "completes"}),
        ("waiting", {"waits"}),
        ("live", {"runs", "grows"}),
        ("failed", {"fails"}),
        ("completed", {"completes"}),
        ("forked", {"completes"}),
    ],
)
def test_filters_show_only_runs_of_a_status(
    runner: Client, location: Location, only: str, shown: set[str]
) -> None:
    make_run(location, 1, name="waits", status=Run.Status.WAITING)
    run = make_run(location, 2, name="runs")
    make_run(location, 3, name="fails", status=Run.Status.FAILED)
    make_run(location, 4, name="completes", status=Run.Status.COMPLETED, branch_count=2)
    make_run(location, 5, name="grows", last_at=timezone.now())
    make_job(location, run=run, status=Job.Status.RUNNING)
    response = runner.get(HOME, {"only": only})
    assert {row.run.name for row in response.context["runs"].rows} == shown
    # What another program has stopped writing disappears without a change that the page is notified of.
    assert ("every 10s" in response.content.decode()) == ("grows" in shown)


def test_the_number_of_queries_is_the_same_for_many_runs(runner: Client, location: Location) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert runner.get(HOME).status_code == 200
        return len(captured)

    for number in range(3):
        make_run(location, number, inputs=[["topic", str(number)]])
    few = queries()
    for number in range(3, 60):
        make_run(location, number, inputs=[["topic", str(number)]])
    assert queries() == few


def test_pages_keep_the_filter_and_the_order(runner: Client, location: Location) -> None:
    for number in range(60):
        make_run(location, number)
    page = text_of(runner, f"{HOME}?sort=started&q=run")
    assert "of 60" in page and "?sort=started&amp;q=run&amp;page=2" in page


def test_imported_runs_are_described(runner: Client, imported: Callable[[str], Location]) -> None:
    run = imported("1.15.30/json").runs.get()
    assert run.inputs == [["topic", "AI"], ["year", "2026"]] and run.is_described


def test_the_refreshed_part_is_the_contents_only(runner: Client, location: Location) -> None:
    part = runner.get(HOME, headers={"HX-Request": "true", "HX-Target": "home-contents"}).content.decode()
    assert part.strip().startswith('<div id="home-contents"')
