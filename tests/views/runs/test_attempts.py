"""Forks, resumes and new runs that ended before their first checkpoint are listed at their start."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.presentation.run.window import Wanted, window_of


def attempt(checkpoint: Checkpoint, **values: Any) -> Job:
    """Create a fork that ended before it wrote a checkpoint."""
    made = {"kind": "fork", "branch": "what-if", "status": "failed", "error": "the tool has no <file>"}
    return Job.objects.create(
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        **(made | values),
    )


@pytest.fixture
def start(crew_run: Run) -> Checkpoint:
    return crew_run.checkpoints.order_by("row")[1]


def shown(client: Client, run: Run, query: str = "") -> list[str]:
    """Return the rows of the list, newest first."""
    page = client.get(f"{run.get_absolute_url()}{query}").content.decode()
    return re.findall(r'<li class="row.*?</li>', page, re.DOTALL)


@pytest.mark.parametrize("status", ["failed", "cancelled", "interrupted"])
@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_an_attempt_is_a_row_above_its_starting_checkpoint(
    runner: Client, start: Checkpoint, status: str, kind: str
) -> None:
    before = shown(runner, start.run)
    job = attempt(start, status=status, kind=kind)
    rows = shown(runner, start.run)
    (index,) = [number for number, row in enumerate(rows) if "row-attempt" in row]
    assert f'id="c{start.pk}"' in rows[index + 1]
    assert len(rows) == len(before) + 1
    row = rows[index]
    assert job.get_absolute_url() in row and "the tool has no &lt;file&gt;" in row
    assert f"{kind} {status}" in row
    assert ("what-if" in row) == (kind == "fork")
    assert reverse(kind, args=[start.pk]) in row and "Retry" in row


def test_an_attempt_is_drawn_as_a_cross_connected_to_its_start(start: Checkpoint) -> None:
    plain = window_of(start.run, Wanted())
    attempt(start)
    window = window_of(start.run, Wanted())
    (index,) = [number for number, line in enumerate(window.lines) if line.attempts]
    (cross,) = [dot for dot in window.drawing.dots if dot.key.startswith("attempt")]
    assert (cross.shape, cross.y) == ("failure", index * 30 + 15)
    assert cross.x > max(dot.x for dot in window.drawing.dots if dot is not cross)
    assert len(window.drawing.lines) == len(plain.drawing.lines) + 1
    assert window.drawing.height == plain.drawing.height + 30
    (line,) = [line for line in window.drawing.lines if line.path.startswith(f"M{cross.x:g} {cross.y:g}")]
    parent = next(dot for dot in window.drawing.dots if dot.key == str(start.pk))
    assert line.path.endswith(f"{parent.y:g}H{parent.x:g}")


def test_several_attempts_at_one_checkpoint_are_one_row_until_expanded(
    runner: Client, start: Checkpoint
) -> None:
    for number in range(3):
        attempt(start, branch=f"try-{number}")
    (row,) = [row for row in shown(runner, start.run) if "row-attempt" in row]
    assert "3 failed attempts" in row and "attempts=shown" in row
    assert sum("row-attempt" in row for row in shown(runner, start.run, "?attempts=shown")) == 3


def test_jobs_with_a_checkpoint_or_still_running_or_succeeded_are_not_attempts(
    runner: Client, start: Checkpoint
) -> None:
    written = attempt(start)
    JobEvent.objects.create(job=written, seq=1, kind="checkpoint", at=timezone.now(), data={"id": "x"})
    for status in ("queued", "starting", "running", "succeeded"):
        attempt(start, status=status, branch=status)
    assert not any("row-attempt" in row for row in shown(runner, start.run))


def test_read_only_users_see_no_retry_link(reader: Client, start: Checkpoint) -> None:
    attempt(start)
    (row,) = [row for row in shown(reader, start.run) if "row-attempt" in row]
    assert "Retry" not in row


def test_a_pruned_start_is_not_collapsed(runner: Client, start: Checkpoint) -> None:
    start.run.checkpoints.update(state="pruned")
    attempt(start)
    assert any("row-attempt" in row for row in shown(runner, start.run))


def test_a_job_without_a_branch_links_to_its_starting_checkpoint(runner: Client, start: Checkpoint) -> None:
    page = runner.get(attempt(start).get_absolute_url()).content.decode()
    assert "Show branch" not in page
    assert "Show starting checkpoint" in page
    assert start.get_absolute_url().replace("&", "&amp;") in page
    resumed = attempt(start, kind="resume", branch=start.branch)
    assert "Show branch" in runner.get(resumed.get_absolute_url()).content.decode()


def test_a_new_run_without_checkpoints_is_listed_at_its_location(runner: Client, location: Location) -> None:
    request = {"entry_point": "crew:build", "name": "build", "entity": "crew"}
    job = Job.objects.create(
        kind="run", location=location, branch="main", status="failed", error="no key", request=request
    )
    page = runner.get(location.get_absolute_url()).content.decode()
    assert job.get_absolute_url() in page and "no key" in page
    assert "No checkpoints yet" not in page
    assert f"{reverse('new-run', args=[location.uid])}?retry={job.pk}" in page
    Job.objects.update(status="running")
    assert job.get_absolute_url() not in re.sub(
        r"<aside.*", "", runner.get(location.get_absolute_url()).content.decode(), flags=re.DOTALL
    )


def test_a_failed_attempt_is_muted_with_its_row(start: Checkpoint) -> None:
    for number, one in enumerate(start.run.checkpoints.order_by("row")[:3]):
        attempt(one, branch=f"try-{number}")
    window = window_of(start.run, Wanted(at=start.checkpoint_id, mutes=True))
    crosses = {dot.key: dot.muted for dot in window.drawing.dots if dot.key.startswith("attempt")}
    assert len(crosses) == 3
    assert list(crosses.values()) == [line.muted for line in window.lines if line.attempts]
