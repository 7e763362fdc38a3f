"""The worker takes ready jobs in order, and a job that does not start keeps none waiting."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from django.utils import timezone

from tests.jobs.conftest import MakeJob
from viewer.host.jobs.files import storage_of
from viewer.host.worker import WorkerState, run_in_slot, take
from viewer.models import DayLimits, Job, Project
from viewer.records.hosts import next_job


def one_slot() -> WorkerState:
    """Return a worker's state. Its threads start nothing here."""
    return WorkerState(1, ThreadPoolExecutor(1), ThreadPoolExecutor(1))


def test_jobs_are_taken_in_the_order_in_which_they_became_ready(make_job: MakeJob) -> None:
    now = timezone.now()
    first, scheduled, last = (make_job("succeeds.py") for _ in range(3))
    Job.objects.filter(pk=last.pk).update(created_at=now)
    # It was made first, and became due between the others.
    due_at = now - timedelta(minutes=1)
    times = {"created_at": now - timedelta(days=1), "start_at": due_at, "became_due_at": due_at}
    Job.objects.filter(pk=scheduled.pk).update(**times)
    Job.objects.filter(pk=first.pk).update(created_at=now - timedelta(minutes=2))
    assert next_job() == first
    assert next_job([first.pk]) == scheduled
    assert next_job([first.pk, scheduled.pk]) == last
    assert next_job([first.pk, scheduled.pk, last.pk]) is None


def test_a_limit_holds_back_only_the_jobs_that_share_it(make_job: MakeJob, project: Project) -> None:
    other = Project.objects.create(folder="/elsewhere", interpreter=project.interpreter)
    project.change_limits({"steps": 1})
    Job.objects.filter(pk=make_job().pk).update(status="succeeded", steps_used=1, started_at=timezone.now())
    _one, free = make_job(), make_job()
    assert next_job() is None
    Job.objects.filter(pk=free.pk).update(project=other)
    assert next_job() == free
    DayLimits.change({"steps": 1})
    assert next_job() is None


def test_a_job_that_another_process_holds_keeps_no_slot_waiting(make_job: MakeJob) -> None:
    held, ready = make_job("succeeds.py"), make_job("succeeds.py")
    storage_of(held).create()
    state = one_slot()
    with storage_of(held).following():
        taken = take(state)
        assert taken == held
        run_in_slot(state, taken)
        assert Job.objects.get(pk=ready.pk).status == "succeeded"
    assert Job.objects.get(pk=held.pk).status == "queued" and take(state) is None
    # The time after which it is taken again.
    state.taken_at.clear()
    assert take(state) == held


def test_one_slot_runs_all_ready_jobs_in_turn(make_job: MakeJob) -> None:
    jobs = [make_job("succeeds.py") for _ in range(3)]
    state = one_slot()
    first = take(state)
    assert first == jobs[0]
    run_in_slot(state, first)
    started = Job.objects.filter(status="succeeded").order_by("started_at")
    assert list(started) == jobs
