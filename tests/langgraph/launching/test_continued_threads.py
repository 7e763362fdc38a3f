"""A resume continues the end of a thread that a person saw, or does not start."""

from pathlib import Path

import pytest

from tests.langgraph.copied import copied_thread
from tests.langgraph.databases import packed
from viewer.host.jobs.starting import refuse_continued
from viewer.host_requests import JobRefused
from viewer.models import Job

pytestmark = pytest.mark.django_db


def test_a_resume_that_waited_while_its_thread_continued_is_refused(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 3)
    last = run.checkpoints.order_by("row").last()
    job = Job(kind=Job.Kind.RESUME, location=run.location, run=run, checkpoint=last)
    refuse_continued(job)
    # The program of the thread goes on, and nobody has imported that.
    database.add(3, packed({"value": 3}))
    with pytest.raises(JobRefused, match="The run has continued since this was requested"):
        refuse_continued(job)
    # A fork starts wherever it was asked for.
    refuse_continued(Job(kind=Job.Kind.FORK, location=run.location, run=run, checkpoint=last))
