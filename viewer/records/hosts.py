"""Whether the host of a location or job answers, and the pools of locations.

A database that no other machine uses has one host.
"""

from django.conf import settings
from django.db import transaction

from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Host, Job, Location, Pool, PoolMember
from viewer.models.jobs import OF_ONE_HOST
from viewer.records.audit import Action, Audited, record
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


def hosts_that_may_start(job: Job) -> list[Host]:
    """Return the hosts of a pool that are available and recognise the location of a queued job."""
    if job.host_id or not job.location.pool_id:
        return []
    members = PoolMember.objects.filter(location=job.location_id, refusal__isnull=True)
    found = Host.objects.available().filter(pools=job.location.pool_id, pk__in=members.values("host"))
    return list(found)


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
