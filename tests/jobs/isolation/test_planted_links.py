"""What a run writes in the folders that it may write opens nothing more to the next run."""

import json
from pathlib import Path

import pytest

from tests.jobs.conftest import MakeJob, finished
from tests.jobs.isolation.conftest import ended, isolate, result_of
from viewer.host.jobs.spool import LOCK, LOG
from viewer.models import Job, Location, Project

NOTHING: dict[str, list[str]] = {
    name: [] for name in ("read", "write", "replace", "processes", "addresses", "sockets")
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user with a file, which neither Forkline nor a project names."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("KEY=sk-of-the-user")
    return folder


def attack(project: Project, victim: Path) -> None:
    given = NOTHING | {"read": [str(victim / "file")], "write": [str(victim)]}
    (Path(project.folder) / "attack.json").write_text(json.dumps(given))


def reached(job: Job) -> list[str]:
    return list(json.loads(job.result)[1]) if job.result else []


def test_a_location_that_became_a_link_refuses_the_start(
    make_job: MakeJob, project: Project, location: Location, launcher: str, victim: Path
) -> None:
    attack(project, victim)
    # Where the engine writes them by default.
    own = Path(project.folder) / "checkpoints"
    Location.objects.filter(pk=location.pk).update(path=str(own))
    own.symlink_to(victim)
    job = ended(make_job, project, "attacks.py", launcher=launcher)
    assert reached(job) == []
    assert job.status == "failed" and job.error.code == "isolation.leads_elsewhere", job.error


def test_an_environment_file_that_became_a_link_is_not_read_wherever_it_leads(
    make_job: MakeJob, project: Project, launcher: str, victim: Path
) -> None:
    own = Path(project.folder) / ".env"
    own.symlink_to(victim / "file")
    project.environment_file = str(own)
    project.save()
    job = ended(make_job, project, "shows_environment.py", launcher=launcher)
    assert job.status == "failed" and job.error.code == "isolation.environment_file_leads_out"
    assert "sk-of-the-user" not in job.log_end


@pytest.mark.parametrize("each", ["process", "landlock", "bubblewrap"])
def test_a_run_inherits_its_log_and_its_lock(make_job: MakeJob, project: Project, each: str) -> None:
    isolate(project, launcher=each, wall_seconds=100)
    job = finished(make_job("shows_descriptors.py"))
    assert job.status == "succeeded", (job.error, job.log_end)
    found = {number: target for number, target in result_of(job) if "/fd" not in target}
    assert sorted(Path(target).name for target in found.values()) == [LOCK, LOG, LOG, "null"], found
