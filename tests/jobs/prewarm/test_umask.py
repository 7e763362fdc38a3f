"""A run writes files with the user's umask, although Forkline's files are private."""

import stat
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob
from tests.jobs.prewarm.conftest import Warm, reported_by
from viewer.models import Job, Project


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_a_run_has_the_umask_of_the_user(
    start: str, make_job: MakeJob, prewarmed: Warm, project: Project, settings: Settings
) -> None:
    settings.USERS_UMASK = 0o026
    make_job("shows_environment.py")
    if start == "warm":
        prewarmed()
    assert reported_by(make_job, project)["is_warm"] == (start == "warm")
    written = Path(project.folder) / "reported.json"
    assert stat.S_IMODE(written.stat().st_mode) == 0o640
    (job,) = Job.objects.filter(status="succeeded")
    ours = [job.folder, *job.folder.rglob("*")]
    assert len(ours) > 1 and not any(path.stat().st_mode & 0o077 for path in ours)
