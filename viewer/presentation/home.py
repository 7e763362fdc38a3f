"""The part of the home page above the runs: what needs a person, what runs, and what failed."""

from collections.abc import Iterable
from dataclasses import dataclass

from viewer.models import Checkpoint, Job, Question, Run
from viewer.presentation.jobs.pages import ShownJob, retry_url, shown_job
from viewer.presentation.jobs.status import Wait, waiting
from viewer.presentation.run_list import paused_runs, running_runs

# Maximum entries of each part. A link leads to the others.
MAX_SHOWN = 3
# Retries are searched among this many of the newest jobs.
MAX_JOBS = 500


@dataclass(frozen=True, slots=True)
class RecentFailure:
    """A run or job that failed and was not retried.

    ``checkpoint`` is the failed checkpoint, if there is one; ``retry_url`` is empty if it cannot be retried.
    """

    run: Run | None
    job: Job | None
    checkpoint: Checkpoint | None
    retry_url: str = ""


@dataclass(frozen=True, slots=True)
class Attention:
    """What needs a person, what runs, and what failed, each with its total number."""

    questions: list[Question]
    missed: list[Wait]
    waiting_runs: list[Run]
    need_count: int
    jobs: list[ShownJob]
    queued: list[Wait]
    queued_count: int
    running_count: int
    failures: list[RecentFailure]
    failure_count: int


def attention() -> Attention:
    """Return the entries and totals of all three parts."""
    questions = Question.objects.waiting().select_related("job__run", "job__location").order_by("asked_at")
    queued = [wait for wait in waiting() if wait.job.status == Job.Status.QUEUED]
    missed = [wait for wait in queued if wait.kind == "person"]
    others = [wait for wait in queued if wait.kind != "person"]
    paused = paused_runs()
    under_way = Job.objects.under_way().select_related("run", "location").order_by("created_at")
    running = under_way.exclude(pk__in=Question.objects.waiting().values("job"))
    failures, failure_count = _failures()
    return Attention(
        questions=list(questions[:MAX_SHOWN]),
        missed=missed[:MAX_SHOWN],
        waiting_runs=list(paused[:MAX_SHOWN]),
        need_count=questions.count() + len(missed) + paused.count(),
        jobs=[shown_job(job) for job in running[:MAX_SHOWN]],
        queued=others[:MAX_SHOWN],
        queued_count=len(others),
        running_count=running.count(),
        failures=failures,
        failure_count=failure_count,
    )


def _failures() -> tuple[list[RecentFailure], int]:
    """Return the newest failures, newest first, and their total number."""
    jobs = _failed_jobs()
    by_run = {job.run_id: job for job in reversed(jobs) if job.run_id}
    failed = Run.objects.top_level().filter(status=Run.Status.FAILED).exclude(pk__in=running_runs())
    runs = list(failed.select_related("location")[:MAX_SHOWN])
    last = _last_checkpoints(runs)
    found = [(run.last_at, _failure_of(run, by_run.get(run.pk), last.get(run.pk))) for run in runs]
    failed_pks = set(failed.order_by().values_list("pk", flat=True))
    others = [job for job in jobs if job.run_id not in failed_pks]
    found += [(job.ended_at, RecentFailure(job.run, job, None, retry_url(job))) for job in others[:MAX_SHOWN]]
    found.sort(key=lambda pair: pair[0].timestamp() if pair[0] else 0, reverse=True)
    return [failure for _at, failure in found[:MAX_SHOWN]], len(failed_pks) + len(others)


def _failure_of(run: Run, job: Job | None, checkpoint: Checkpoint | None) -> RecentFailure:
    return RecentFailure(run, job, checkpoint, retry_url(job) if job else "")


def _failed_jobs() -> list[Job]:
    """Return the failed jobs that no later job has repeated, newest first."""
    newest = Job.objects.select_related("run", "location", "checkpoint", "project").order_by("-created_at")
    repeated, found = set(), []
    for job in newest[:MAX_JOBS]:
        same = (job.location_id, job.kind, job.checkpoint_id, str(job.request.get("entry_point") or ""))
        if same not in repeated and job.status in (Job.Status.FAILED, Job.Status.INTERRUPTED):
            found.append(job)
        repeated.add(same)
    return found


def _last_checkpoints(runs: Iterable[Run]) -> dict[int, Checkpoint]:
    """Return the newest checkpoint of each run, by the key of the run."""
    heads = Checkpoint.objects.filter(run__in=[run.pk for run in runs], is_branch_head=True)
    return {head.run_id: head for head in heads.select_related("run").order_by("row")}
