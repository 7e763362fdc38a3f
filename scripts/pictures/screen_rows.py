"""The rows whose pages ``make screens`` takes, and those that the demo has not made itself."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

# The scores that the demo's forks are shown with, as a function of a project would give them.
SCORES = {"shorter-draft": 0.82, "year-2030": 0.61}
FUNCTION = "judge:headline"
DRAFT = """# AI checkpoints in 2026

Forking used to mean copying a folder and hoping. Now the branch is drawn where it left."""


def shown_rows() -> dict[str, Any]:
    """Return the rows and tokens that addresses name."""
    from viewer.models import Checkpoint, Job

    article = Checkpoint.objects.filter(location__path__endswith="/article", trigger="task_completed")
    forked = article.select_related("run__location").get(branch="shorter-draft", units_done=4)
    early = article.select_related("run__location").get(branch="main", units_done=1)
    start = article.select_related("run__location").get(branch="main", units_done=3)
    threads = Checkpoint.objects.filter(location__engine="langgraph").select_related("run")
    waiting = threads.filter(run__status="waiting", run__parent=None, branch="main").order_by("-row")[0]
    return {
        "forked": forked,
        "forked_part": _edited_output(forked),
        "early": early,
        "start": start,
        "thread": threads.order_by("-run__branch_count", "-row")[0],
        "waiting": waiting,
        "draft": threads.filter(source_key__startswith=Checkpoint.SCRATCH, is_branch_head=True).order_by(
            "row"
        )[0],
        "run": forked.run,
        "location": forked.location,
        "job": Job.objects.order_by("created_at")[0],
        "scored": _scored_sweep(start),
        # At another location, because nothing is pruned while a job runs.
        "question": _question(Checkpoint.objects.filter(location__path__endswith="/interview").latest("row")),
        "run_token": _token("run", str(forked.run.uid)),
        "checkpoint_token": _token("checkpoint", f"{forked.run.uid}/{forked.checkpoint_id}"),
    }


def _edited_output(checkpoint: Any) -> str:
    """Return the id of the output that the demo's fork edited, the second one."""
    from viewer.engines import engine_of
    from viewer.records.bodies import stored_contents

    parts = engine_of(checkpoint.location).followed_parts(stored_contents(checkpoint))
    return [part.id for part in parts if part.section == "outputs"][1]


def _scored_sweep(start: Any) -> Any:
    """Return a sweep of the demo's forks with a score for each."""
    from viewer.models import Job, Sweep
    from viewer.records.sweep_scores import score_key

    forks = Job.objects.filter(branch__in=SCORES, run=start.run, kind=Job.Kind.FORK)
    sweep, _is_new = Sweep.objects.get_or_create(
        name="two ideas", defaults={"checkpoint": start, "score": FUNCTION}
    )
    for job in forks:
        Job.objects.filter(pk=job.pk).update(sweep=sweep, variation=job.branch.replace("-", " "))
        end = start.run.checkpoints.filter(branch=job.branch).latest("row")
        Job.objects.get_or_create(
            idempotency_key=score_key(job),
            defaults={
                "kind": Job.Kind.SCORE,
                "location": start.location,
                "run": start.run,
                "checkpoint": end,
                "branch": job.branch,
                "status": Job.Status.SUCCEEDED,
                "request": {"function": FUNCTION},
                "result": json.dumps(SCORES[job.branch]),
            },
        )
    return sweep


@contextmanager
def asking(question: Any) -> Iterator[None]:
    """Make the question's job a running one. It has no runner, so nothing but this process may follow it."""
    from viewer.host.jobs.files import storage_of
    from viewer.models import Job

    storage, jobs = storage_of(question.job), Job.objects.filter(pk=question.job.pk)
    storage.create()
    with storage.following():
        jobs.update(status=Job.Status.RUNNING)
        question.job.questions.update(withdrawn_at=None)
        yield
        jobs.update(status=Job.Status.INTERRUPTED)
        question.job.questions.withdraw()


def _question(start: Any) -> Any:
    """Return the question of a job that is ``asking``."""
    from viewer.models import Job, Question

    values = {
        "kind": Job.Kind.FORK,
        "run": start.run,
        "checkpoint": start,
        "project": start.location.project,
        "status": Job.Status.INTERRUPTED,
        "started_at": timezone.now(),
    }
    job, _is_new = Job.objects.get_or_create(branch="reviewed", location=start.location, defaults=values)
    question, _is_new = Question.objects.get_or_create(
        job=job,
        number=1,
        defaults={
            "kind": Question.Kind.HUMAN_INPUT,
            "prompt": "Approve this output, or say what to change.",
            "context": {"unit": "Write the article", "output": DRAFT},
        },
    )
    return question


def _token(kind: str, target: str) -> str:
    """Return the token of a new share link."""
    from viewer.presentation.share_links import make_link
    from viewer.presentation.shared_objects import find_shared, subject_in
    from viewer.web.login_links import owner

    subject = subject_in(kind, target)
    shared = find_shared(subject) if subject else None
    assert shared, target
    return make_link(shared, owner())[1]
