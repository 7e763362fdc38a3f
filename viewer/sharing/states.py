"""What an open page of a share link depends on, as values to compare."""

from collections.abc import Callable, Iterable, Mapping

from django.db.models import Max

from viewer.models import Job, Location, Run, ShareLink
from viewer.sharing.links import hash_of, is_alive

Kind = ShareLink.Kind
# The columns of a run and of a job that differ whenever its page would.
RUN_COLUMNS = ("checkpoint_count", "branch_count", "lane_count", "last_at", "status", "head", "name")
JOB_COLUMNS = ("status", "limit_hit", "started_at", "ended_at")


def state_of(link: ShareLink) -> str | None:
    """Return a text that differs whenever the page of the link would; None if the link does not work."""
    if not is_alive(link):
        return None
    read = READERS.get(link.kind)
    return read(link.target) if read else ""


def states_of(keys: Iterable[str]) -> Mapping[str, str | None]:
    """Return the states of these links by their keys. A link that is gone does not work."""
    wanted = list(keys)
    links = ShareLink.objects.select_related("made_by").filter(pk__in=wanted) if wanted else ()
    states = {str(link.pk): state_of(link) for link in links}
    return {key: states.get(key) for key in wanted}


def open_link(token: str) -> tuple[ShareLink, Location | None] | None:
    """Return the link with this token, if it works, and the location that its page follows, if any."""
    link = ShareLink.objects.select_related("made_by").filter(token_hash=hash_of(token)).first()
    if link is None or state_of(link) is None:
        return None
    followed = Location.objects.filter(pk__in=link.locations).first() if link.kind == Kind.RUN else None
    return link, followed


def _run(target: str) -> str | None:
    found = Run.objects.filter(uid=target).values_list(*RUN_COLUMNS).first()
    return None if found is None else "|".join(map(str, found))


def _job(target: str) -> str | None:
    jobs = Job.objects.filter(pk=target).annotate(last=Max("events__seq"))
    found = jobs.values_list(*JOB_COLUMNS, "last").first()
    return None if found is None else "|".join(map(str, found))


def _checkpoint(target: str) -> str | None:
    run, _slash, name = target.partition("/")
    found = Run.objects.filter(uid=run, checkpoints__checkpoint_id=name).exists()
    return "" if found else None


READERS: dict[str, Callable[[str], str | None]] = {
    Kind.RUN: _run,
    Kind.JOB: _job,
    Kind.CHECKPOINT: _checkpoint,
}
