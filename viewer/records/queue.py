"""The queue: which jobs a worker may start now, and in which order.

The rows of queued jobs are the queue, and the commit of a row wakes the workers. Callers know only
``enqueue`` and ``next_job``, so another queue replaces these two. Neither claims a job: its row decides
(``Job.claim``).
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models.functions import Coalesce
from django.utils import timezone

from viewer.models import Checkpoint, Host, Job, Location, Sweep
from viewer.postgresql import rows_identity
from viewer.records.limits import reached_shared_limit
from viewer.records.permissions import may_start

# The warm-up only saves time and tokens, so the wait for it is limited.
MAX_WARMUP = timedelta(seconds=90)


def claimants(location: Location, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Return the columns of a new job that say who may claim it: one host, or any of the location's pool.

    If the database cannot be identified, it is the host that reads the location: after a failover, only the
    host that may have claimed it before knows whether it did.
    """
    if checkpoint and checkpoint.is_scratch:
        # Only the host of a draft has its scratch store.
        drafts = Job.objects.filter(pk=checkpoint.scratch_job, host__isnull=False)
        if host := drafts.values_list("host", flat=True).first():
            return {"host_id": host}
    queued_in = rows_identity() if location.pool_id else ""
    return {"queued_in": queued_in} if queued_in else {"host_id": location.host_id}


def enqueue(job: Job) -> None:
    """Let a worker start the job as soon as it may start. Its row has been stored or changed."""
    Job.objects.filter(pk=job.pk).mark_due()


def next_job(excluded: Collection[UUID] = ()) -> Job | None:
    """Return the job of this machine that has been ready for the longest time, without the excluded ones.

    None if none is ready, or if the machine takes no new jobs.

    Jobs that wait for a shared limit, the cache warm-up of their sweep or an admin are not ready, and neither
    are those whose start time was not yet marked as due.
    """
    host = Host.own()
    if host is None or host.is_drained:
        return None
    due = Job.objects.due().of([host]).exclude(pk__in=excluded)
    due = due.order_by(Coalesce("became_due_at", "created_at"))
    # Usually the first one is ready.
    job = due.first()
    if job is None or _is_ready(job):
        return job
    # Of thousands of jobs that wait for one limit or one person, one is checked.
    held: set[tuple[object, ...]] = set()
    sharing_columns = (
        *("sweep", "project", "kind", "location", "checkpoint__location"),
        *("requester_key", "continued_by"),
    )
    for pk, *sharing in due.values_list("pk", *sharing_columns).iterator():
        if tuple(sharing) in held:
            continue
        job = Job.objects.filter(pk=pk).first()
        if job is None or waits_for_cache_warmup(job):
            continue
        if may_start(job) and reached_shared_limit(job) is None:
            return job
        held.add(tuple(sharing))
    return None


def _is_ready(job: Job) -> bool:
    return not waits_for_cache_warmup(job) and may_start(job) and reached_shared_limit(job) is None


def waits_for_cache_warmup(job: Job) -> bool:
    """Whether the first job of the sweep still warms up the cache, for at most ``MAX_WARMUP``."""
    if job.sweep is None or job.kind == Job.Kind.SCORE:
        return False
    first = warming_branch(job.sweep)
    return first is not None and first.pk != job.pk


def warming_branch(sweep: Sweep) -> Job | None:
    """Return the first job of the sweep if it still warms up the cache, for at most ``MAX_WARMUP``."""
    first: Job | None = sweep.branches.first()
    if first is None or first.has_ended or not first.request.get("options", {}).get("cache_warmup"):
        return None
    if first.started_at and timezone.now() - first.started_at > MAX_WARMUP:
        return None
    has_begun = first.events.filter(kind__in=["cache_warmed", "task_started", "ended"]).exists()
    return None if has_begun else first
