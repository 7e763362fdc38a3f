"""Failed attempts: forks and resumes that wrote no checkpoint, by their starting checkpoint."""

from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef

from viewer.lineage.drawing import GraphNode
from viewer.lineage.tree import ParentLink
from viewer.models import Checkpoint, Job, JobEvent, Run
from viewer.presentation.run.rows import RowView

# Maximum number of attempts of a run, the newest.
MAX_ATTEMPTS = 200
ENDED_EARLY = (Job.Status.FAILED, Job.Status.CANCELLED, Job.Status.INTERRUPTED)

Attempts = dict[int, list[Job]]


def attempts_of(run: Run) -> Attempts:
    """Return the failed attempts of a run, newest first, by the key of their checkpoint."""
    written = JobEvent.objects.filter(job=OuterRef("pk"), kind="checkpoint")
    jobs = run.jobs.filter(
        ~Exists(written), kind__in=("fork", "resume"), status__in=ENDED_EARLY, checkpoint__isnull=False
    )
    found: Attempts = {}
    for job in jobs.select_related("checkpoint", "location").order_by("-created_at")[:MAX_ATTEMPTS]:
        assert job.checkpoint_id
        found.setdefault(job.checkpoint_id, []).append(job)
    return found


def attempt_groups(attempts: Attempts, row: Checkpoint, shows_each: bool) -> list[list[Job]]:
    """Return the groups of attempts that become lines: all in one line, or one line each."""
    jobs = attempts.get(row.pk, [])
    return [[job] for job in jobs] if shows_each else [jobs] if jobs else []


def attempt_row(parent: RowView, jobs: list[Job]) -> RowView:
    """Return the line of these attempts, above the line of their checkpoint."""
    return replace(parent, attempts=tuple(jobs), selected=False, running=False, failed=True, folded=0)


def attempt_node(parent: Checkpoint, number: int, lane: int, colour: int) -> GraphNode:
    """Return a cross on an extra lane. ``number`` identifies the attempt in its window."""
    at: Any = {"parent_row": parent.row, "parent_lane": parent.lane}
    # Rows of a run are never negative.
    return GraphNode(f"attempt-{number}", -1 - number, lane, colour, "failure", ParentLink.RECORDED, **at)
