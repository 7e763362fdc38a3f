"""Hosts and their queue: which hosts answer, which may start a job, and which job is started next.

A database that no other machine uses has one host.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce
from django.utils import timezone

from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Host, Job, Location, Pool, PoolMember, Sweep
from viewer.models.jobs import OF_ONE_HOST
from viewer.postgresql import rows_identity
from viewer.records.audit import Action, Audited, record
from viewer.records.limits import reached_shared_limit
from viewer.records.permissions import may_start
from viewer.validation import MAX_DIGITS


def is_here(host: int) -> bool:
    """Whether this machine is this host."""
    own = Host.own()
    return own is not None and own.pk == host


def chosen_host(text: str | None) -> Host | None:
    """Return the host with this primary key, else this machine's, else one that answers, if there is any."""
    # Python converts no number with thousands of digits.
    key = text if text and text.isdecimal() and len(text) <= MAX_DIGITS else None
    named = Host.objects.filter(pk=key).first() if key else None
    return named or Host.own() or Host.objects.live().first() or Host.objects.first()


def allowed_folders(host: Host | None) -> str:
    """The allowed folders of a host, as one text. This machine has those of the settings."""
    roots = settings.CHECKPOINT_ROOTS if host is None or is_here(host.pk) else host.folders
    return ", ".join(str(root) for root in roots)


def is_away(host: int) -> bool:
    """Whether neither this machine is this host, nor its worker has written a heartbeat recently."""
    return not Host.objects.answering().filter(pk=host).exists()


def is_stalled(job: Job) -> bool:
    """Whether the job was started on a host that is away. It may run there still: nothing starts it again."""
    return job.status in (Job.Status.STARTING, Job.Status.RUNNING) and is_away(job.runs_on.pk)


def give_up(job: Job) -> bool:
    """End a stalled job as interrupted, as a person decided. Return False if it is not stalled any more.

    If it runs still, its host ends it when it is back.
    """
    if not is_stalled(job):
        return False
    error = UserMessage("job.host_away", {"host": job.runs_on.name})
    with transaction.atomic():
        job.request_cancel()
        ended = job.end(Job.Status.INTERRUPTED, error=error)
        record(Action.CANCELLED, Audited.JOB, job.pk, "its host is away")
    return ended


def drain(host: Host, *, is_drained: bool) -> None:
    """Have a host take no new jobs, or take jobs again."""
    with transaction.atomic():
        host.change_drained(is_drained=is_drained)
        record(Action.CHANGED, Audited.HOST, host.pk, "drained" if is_drained else "takes jobs")


def remove_unused(host: Host) -> bool:
    """Remove a host that is away and has nothing. Return whether it was removed."""
    key = host.pk
    with transaction.atomic():
        removed = host.remove_if_unused()
        if removed:
            record(Action.REMOVED, Audited.HOST, key)
    return removed


# The pools of locations.


class PoolRefused(UserFacingError):
    """A location cannot be in a pool. The message says why."""


@transaction.atomic
def change_pool(location: Location, pool: Pool | None) -> None:
    """Put a location, with its project and the project's other locations, into a pool or into none.

    Raises PoolRefused.
    """
    locations = list(location.with_same_project.select_related("host").select_for_update(of=("self",)))
    for one in locations if pool else ():
        assert pool is not None
        if one.store_kind in (Location.StoreKind.SQLITE, Location.StoreKind.STATES):
            raise PoolRefused("pool.of_sqlite", path=one.path)
        if one.store_kind == Location.StoreKind.SAVER:
            raise PoolRefused("pool.of_saver", path=one.path)
        if not one.host.pools.filter(pk=pool.pk).exists():
            raise PoolRefused("pool.no_member", host=one.host.name, pool=pool.name)
    PoolMember.objects.filter(location__in=locations).delete()
    Location.objects.filter(pk__in=[one.pk for one in locations]).update(pool=pool)
    for one in locations:
        # Jobs that were queued when only its host could claim them.
        Job.objects.queued().filter(OF_ONE_HOST, location=one, host=None).update(host=one.host)
        record(Action.CHANGED, Audited.LOCATION, one.uid, "pool")


# The queue: which jobs a worker may start now, and in which order.
#
# The rows of queued jobs are the queue, and the commit of a row wakes the workers. Callers know only
# ``enqueue`` and ``next_job``, so another queue replaces these two. Neither claims a job: its row decides
# (``Job.claim``).

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


def hosts_that_may_start(job: Job) -> list[Host]:
    """Return the hosts of a pool that are available and recognise the location of a queued job."""
    if job.host_id or not job.location.pool_id:
        return []
    members = PoolMember.objects.filter(location=job.location_id, refusal__isnull=True)
    found = Host.objects.available().filter(pools=job.location.pool_id, pk__in=members.values("host"))
    return list(found)


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
