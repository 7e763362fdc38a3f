"""The status of a run and of its branches, from their newest checkpoints, jobs and the project's source."""

import json
from pathlib import Path

import pytest
from django.utils import timezone

from tests.imported import imported_location
from tests.importing.test_flow_progress import FIRST, FOURTH, SECOND, THIRD, flow
from tests.real_stores import copy_of, write_checkpoint
from viewer.host.jobs.following import mark_end
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.presentation.run.branches import statuses_text
from viewer.presentation.run_list import rows_of

pytestmark = pytest.mark.django_db


def job_that_wrote(checkpoint: Checkpoint) -> Job:
    """Return a job that has succeeded and wrote this checkpoint."""
    job = Job.objects.create(
        kind="run", location=checkpoint.location, run=checkpoint.run, status=Job.Status.SUCCEEDED
    )
    JobEvent.objects.create(
        job=job, seq=1, kind="checkpoint", at=timezone.now(), data={"id": checkpoint.checkpoint_id}
    )
    return job


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_crew_whose_tasks_are_all_finished_is_completed_without_a_last_checkpoint(
    tmp_path: Path, is_whole: bool
) -> None:
    """CrewAI writes checkpoints only after tasks, unless other events are chosen."""
    folder = copy_of("1.15.30/json", tmp_path)
    (newest,) = folder.glob("exp-a/*_b537f2f3_*.json")
    body = json.loads(newest.read_text())
    assert body["trigger"] == "task_completed"
    tasks = body["entities"][0]["tasks"]
    assert [task["output"] is not None for task in tasks] == [True, True, False]
    if is_whole:
        tasks[2]["output"] = tasks[1]["output"]
        newest.write_text(json.dumps(body))
    run = imported_location(folder).runs.get()
    assert run.status == (Run.Status.COMPLETED if is_whole else "")


SOURCE = """
from crewai.flow.flow import Flow, listen, router, start

class Press(Flow):
    @start()
    def a(self): ...

    @listen(a)
    def b(self): ...
"""


def flow_location(folder: Path, *runs: tuple[str, list[str]], source: str = "") -> Location:
    """A flow on branch ``main``, and a fork of its first checkpoint for each further branch."""
    if source:
        (folder / "pyproject.toml").write_text('[project]\nname = "press"\n')
        (folder / "press.py").write_text(source)
    store = folder / "store"
    write_checkpoint(store, FIRST, **flow(["a"]))
    for identifier, (branch, done) in zip((SECOND, THIRD, FOURTH), runs, strict=False):
        write_checkpoint(store, identifier, FIRST, branch, **flow(done))
    return imported_location(store)


def ended(location: Location, branch: str, status: Job.Status) -> Run:
    """The run after the job that wrote this branch has ended."""
    head = location.checkpoints.get(branch=branch, is_branch_head=True)
    mark_end(job_that_wrote(head), status, is_incomplete=False)
    return location.runs.get()


def label_of(run: Run) -> str:
    return rows_of([run])[0].status_label


def test_a_flow_whose_job_has_succeeded_is_completed_also_after_another_import(tmp_path: Path) -> None:
    location = flow_location(tmp_path, ("main", ["a", "b"]))
    run = ended(location, "main", Job.Status.SUCCEEDED)
    assert (run.status, label_of(run)) == (Run.Status.COMPLETED, "completed")
    location.checkpoints.update(fingerprint="")
    import_location(location)
    assert location.runs.get().status == Run.Status.COMPLETED


@pytest.mark.parametrize(
    ("done", "label"), [(["a", "b"], "completed"), (["a"], "not finished"), (["a", "c"], "not finished")]
)
def test_the_source_shows_whether_a_flow_has_finished(tmp_path: Path, done: list[str], label: str) -> None:
    location = flow_location(tmp_path, ("main", done), source=SOURCE)
    assert label_of(location.runs.get()) == label


def test_the_end_of_a_flow_without_source_is_not_known(tmp_path: Path) -> None:
    location = flow_location(tmp_path, ("main", ["a", "b"]))
    assert label_of(location.runs.get()) == "end not recorded"


@pytest.mark.parametrize(
    ("status", "text"), [("cancelled", "1 completed, 1 cancelled"), ("failed", "1 completed, 1 failed")]
)
def test_a_fork_that_does_not_complete_leaves_its_run_completed(
    tmp_path: Path, status: str, text: str
) -> None:
    location = flow_location(tmp_path, ("main", ["a", "b"]), ("try", ["a"]))
    ended(location, "main", Job.Status.SUCCEEDED)
    run = ended(location, "try", Job.Status(status))
    assert (run.status, statuses_text(run)) == (Run.Status.COMPLETED, text)
    import_location(location)
    assert location.runs.get().branch_statuses == run.branch_statuses


def test_a_failed_fork_does_not_fail_a_run_that_has_not_finished(tmp_path: Path) -> None:
    location = flow_location(
        tmp_path,
        ("main", ["a", "b"]),
        ("try", ["a"]),
        source=SOURCE + "    @listen(b)\n    def c(self): ...\n",
    )
    run = ended(location, "try", Job.Status.FAILED)
    assert (run.status, label_of(run), statuses_text(run)) == ("", "not finished", "1 failed, 1 not finished")


def test_a_run_with_one_branch_has_the_status_of_its_job(tmp_path: Path) -> None:
    location = flow_location(tmp_path, ("main", ["a", "b"]))
    assert label_of(ended(location, "main", Job.Status.CANCELLED)) == "cancelled"
    assert ended(location, "main", Job.Status.FAILED).status == Run.Status.FAILED
