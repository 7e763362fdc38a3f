"""What pages and the terminal show of hosts. With one host, nothing of it is shown elsewhere."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from viewer.engines import engine_named
from viewer.formats import duration, short_moment
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Host, Job, Location, PoolMember, Project
from viewer.presentation.isolation import launchers_of, unavailable_lines

# Seconds of difference between two clocks that change nothing a person sees.
MAX_CLOCK_DIFFERENCE = 5.0


@dataclass(frozen=True, slots=True)
class ShownHost:
    """A host. ``answers`` says whether its worker runs, or whether it is this machine."""

    host: Host
    answers: bool
    is_up: bool
    locations: int
    is_removable: bool
    running: int
    queued: int
    pools: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def engines(self) -> str:
        """The engines of its projects with their versions, as text."""
        found = self.host.engines.items()
        return ", ".join(f"{engine_named(name).title} {', '.join(versions)}" for name, versions in found)

    @property
    def launchers(self) -> str:
        """The launchers that work there."""
        return ", ".join(one.label for one in launchers_of(self.host) if not one.reason)

    @property
    def unavailable(self) -> list[str]:
        """What runs there cannot be isolated with, and why."""
        return list(unavailable_lines(self.host))

    @property
    def state(self) -> str:
        """Whether it takes jobs, in a word or two."""
        if not self.is_up:
            return _("away")
        return _("drained") if self.host.is_drained else _("taking jobs")


def shown_hosts() -> list[ShownHost]:
    """Return all hosts, by name."""
    answering = set(Host.objects.answering().values_list("pk", flat=True))
    live = set(Host.objects.live().values_list("pk", flat=True))
    unfinished = Job.objects.unfinished().values_list(Coalesce("host", "location__host"), "status")
    locations = Counter(Location.objects.values_list("host", flat=True))
    projects = Counter(Project.objects.values_list("host", flat=True))
    refusals = defaultdict[int, list[UserMessage]](list)
    for member in PoolMember.objects.filter(refusal__isnull=False, location__pool__hosts=F("host")):
        refusals[member.host_id].append(member.refusal)
    jobs = Counter((host, status == Job.Status.QUEUED) for host, status in unfinished)
    return [
        ShownHost(
            host,
            answers=host.pk in answering,
            is_up=host.pk in live,
            locations=locations[host.pk],
            is_removable=not (host.pk in answering or locations[host.pk] or projects[host.pk]),
            running=jobs[host.pk, False],
            queued=jobs[host.pk, True],
            pools=[pool.name for pool in host.pools.all()],
            warnings=[*warnings_of(host), *(translate(one) for one in refusals[host.pk])],
        )
        for host in Host.objects.prefetch_related("pools")
    ]


def refusals_at(location: Location) -> list[str]:
    """Return why hosts of its pool run nothing at a location, each as a sentence with the host's name."""
    refused = location.members.filter(refusal__isnull=False).select_related("host").order_by("host__name")
    return [f"{one.host.name}: {translate(one.refusal)}" for one in refused]


def refusal_of(host: Host, location: Location) -> str:
    """Return why one host runs nothing at a location, with its name; empty if it does."""
    refused = location.members.filter(refusal__isnull=False, host=host).first()
    return f"{host.name}: {translate(refused.refusal)}" if refused else ""


def hosts_if_several() -> dict[int, ShownHost]:
    """Return all hosts by primary key; none if there is only one."""
    if Host.objects.count() < 2:
        return {}
    return {one.host.pk: one for one in shown_hosts()}


def away_text(host: Host) -> str:
    """Return since when a host has not answered, as the end of a sentence that begins with its name."""
    if host.seen_at is None:
        return _("%(host)s, which has never answered") % {"host": host.name}
    values = {"host": host.name, "time": short_moment(host.seen_at)}
    return _("%(host)s, which has not answered since %(time)s") % values


def in_use_text(host: Host) -> str:
    """Return why a host cannot be removed."""
    text = _("%(host)s runs, or has locations or projects. Only a host that is away and has none is removed.")
    return text % {"host": host.name}


def warnings_of(host: Host) -> list[str]:
    """Return sentences about a data folder where no job can start, and a clock or version that differs."""
    found = [translate(host.fault)] if host.fault else []
    difference = host.clock_difference or 0.0
    if abs(difference) > MAX_CLOCK_DIFFERENCE:
        ahead = _("Its clock is %(time)s ahead of the database's. Set it: the times of its jobs are wrong.")
        behind = _("Its clock is %(time)s behind the database's. Set it: the times of its jobs are wrong.")
        found.append((ahead if difference > 0 else behind) % {"time": duration(abs(difference))})
    reported = {one.version for one in Host.objects.live().exclude(pk=host.pk)}
    others = {settings.VERSION, *reported} - {host.version, ""}
    if host.version and others:
        text = _("It runs Forkline %(version)s, others run %(others)s. Install the same version everywhere.")
        found.append(text % {"version": host.version, "others": ", ".join(sorted(others))})
    return found
