"""Whether the host of a location or job answers. A database that no other machine uses has one host."""

from viewer.messages.message import UserMessage
from viewer.models import Host, Job


def is_here(host: int) -> bool:
    """Whether this machine is this host."""
    own = Host.own()
    return own is not None and own.pk == host


def chosen_host(text: str | None) -> Host | None:
    """Return the host with this primary key, else this machine's, else one that answers, if there is any."""
    named = Host.objects.filter(pk=text).first() if text and text.isdecimal() else None
    return named or Host.own() or Host.objects.live().first() or Host.objects.first()


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
    job.request_cancel()
    error = UserMessage("job.host_away", {"host": job.runs_on.name})
    return job.end(Job.Status.INTERRUPTED, error=error)
