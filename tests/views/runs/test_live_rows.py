"""The rows of what is being written now, by a job or by another program."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.views.runs.test_runs import page_of
from viewer.models import Job, Run

pytestmark = pytest.mark.postgresql


def test_a_branch_that_is_being_written_is_marked_live(reader: Client, crew_run: Run) -> None:
    assert 'class="halo"' not in page_of(reader, crew_run)
    Job.objects.create(
        kind="fork", location=crew_run.location, run=crew_run, branch="exp-a", status=Job.Status.RUNNING
    )
    page = page_of(reader, crew_run)
    assert page.count('class="halo"') == 1
    assert ">live<" in page


def test_the_newest_checkpoint_is_marked_live_while_another_program_writes(
    reader: Client, crew_run: Run
) -> None:
    Run.objects.filter(pk=crew_run.pk).update(newest_status="", last_at=timezone.now())
    page = page_of(reader, crew_run)
    assert page.count('class="halo"') == page.count(">live<") == 1
    newest = crew_run.checkpoints.latest("row")
    assert page.index(f'id="c{newest.pk}"') < page.index(">live<")
    # An open page drops the mark after a minute without a new checkpoint, although nothing has changed.
    assert "every 10s" in page
    for ended in (
        {"newest_status": Run.Status.COMPLETED},
        {"last_at": timezone.now() - timedelta(minutes=2)},
    ):
        Run.objects.filter(pk=crew_run.pk).update(**{"newest_status": "", "last_at": timezone.now()} | ended)
        page = page_of(reader, crew_run)
        assert ">live<" not in page and "every 10s" not in page
