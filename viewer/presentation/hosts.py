"""What pages and the terminal show of hosts, and of the isolation of runs on them.

With a single host, only the page of hosts names it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_named
from viewer.formats import count_text, duration, short_moment
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Host, Job, Location, PoolMember, Project
from viewer.records.isolation import (
    ALLOWED_HOSTS,
    LAUNCHERS,
    LIMITS,
    Isolation,
    IsolationRefused,
    isolation_of,
)

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


# How a project's runs are isolated, what was in force for a job, and what a host can do, as texts.


LAUNCHER_LABELS = {
    "process": gettext_lazy("Process"),
    "systemd": "systemd scope",
    "bubblewrap": "bubblewrap",
    "landlock": "Landlock",
}
NETWORK_LABELS = {
    "all": gettext_lazy("All"),
    "hosts": gettext_lazy("Allowed hosts only"),
    "none": gettext_lazy("None"),
}
LIMIT_LABELS = {
    "memory_mb": gettext_lazy("Memory (MB)"),
    "cpu_seconds": gettext_lazy("Processor seconds"),
    "processes": gettext_lazy("Processes and threads"),
    "open_files": gettext_lazy("Open files of each process"),
    "wall_seconds": gettext_lazy("Seconds"),
}

# More of them are folded.
MAX_SHOWN_FOLDERS = 6


@dataclass(frozen=True, slots=True)
class ShownLauncher:
    """A launcher of a host. ``reason`` says why it does not work there, empty if it does."""

    name: str
    label: str
    reason: str


def launchers_of(host: Host) -> list[ShownLauncher]:
    """The launchers that a host has tried. Empty until its worker has started."""
    found = host.launchers
    return [
        ShownLauncher(name, str(LAUNCHER_LABELS[name]), str(found[name]))
        for name in LAUNCHERS
        if name in found
    ]


def unavailable_lines(host: Host) -> Iterator[str]:
    """What a host cannot isolate with, and why, a line each."""
    text = _("%(label)s does not work on this host: %(reason)s")
    for one in launchers_of(host):
        if one.reason:
            yield text % {"label": one.label, "reason": one.reason}
    reason = host.launchers.get(ALLOWED_HOSTS)
    if reason and not host.launchers.get("bubblewrap"):
        yield _("Runs cannot be limited to allowed hosts on this host: %(reason)s") % {"reason": reason}


def isolation_lines(isolation: Isolation) -> Iterator[str]:
    """What a project asks for, a line each."""
    yield f"{_('Launcher')}: {LAUNCHER_LABELS[isolation.launcher]}"
    yield f"{_('Network')}: {NETWORK_LABELS[isolation.network]}"
    if isolation.allow:
        yield f"{_('Allowed hosts')}: {', '.join(isolation.allow)}"
    for name, most in isolation.limits.items():
        yield f"{LIMIT_LABELS[name]}: {count_text(most)}"
    for label, paths in ((_("May also read"), isolation.read), (_("May also write"), isolation.write)):
        yield from (f"{label}: {path}" for path in paths)


@dataclass(frozen=True, slots=True)
class ShownFolders:
    """What runs in a sandbox may open besides the system, their job and their stores, as it was noted.

    An older version did not note which of them may be written: then all are in ``read``.
    """

    read: list[str]
    write: list[str]

    @property
    def count(self) -> int:
        return len(self.read) + len(self.write)

    @property
    def is_short(self) -> bool:
        return self.count <= MAX_SHOWN_FOLDERS

    @property
    def labelled(self) -> list[tuple[str, list[str]]]:
        """The folders, below what runs may do with them."""
        of_read = _("May be read") if self.write else _("May be opened")
        return [(of_read, self.read), (_("May be written"), self.write)] if self.count else []

    def lines(self) -> Iterator[str]:
        """A line for each folder."""
        for label, paths in self.labelled:
            yield from (f"{label}: {path}" for path in paths)


def open_folders(project: Project) -> ShownFolders:
    """What was noted as open to a project's runs when its isolation was saved."""
    noted, write = (project.isolation.get(name) or [] for name in ("trusted", "trusted_write"))
    return ShownFolders([path for path in noted if path not in write], list(write))


def in_force(isolation: Mapping[str, Any]) -> Iterator[str]:
    """What was in force for a job, as its supervisor reported it, a line each; none for a plain process."""
    if not isolation:
        return
    launcher = str(isolation.get("launcher", ""))
    label = str(LAUNCHER_LABELS.get(launcher, launcher))
    if version := isolation.get("landlock"):
        label += f" ({_('version')} {version})"
    yield label
    if isolation.get("sandboxed"):
        yield _("Files and processes of others were closed.")
    if isolation.get("signals"):
        yield _("This kernel cannot stop signals to other programs of the user.")
    if isolation.get("network") == "none":
        yield _("No network.")
    if isolation.get("network") == "hosts":
        yield _("No network but these hosts: %s") % ", ".join(map(str, isolation.get("hosts") or []))
    enforced_by = isolation.get("enforced_by") or {}
    for name, most in (isolation.get("limits") or {}).items():
        if name in LIMITS:
            by = _("by the kernel") if enforced_by.get(name) != "supervisor" else _("measured")
            yield f"{LIMIT_LABELS[name]}: {count_text(int(most))} ({by})"


def asked_for(project: Project | None) -> Iterator[str]:
    """What a project asks for, a line each; none for plain processes, or what this version cannot read."""
    if project is None or not project.isolation:
        return
    try:
        yield from isolation_lines(isolation_of(project.isolation))
    except IsolationRefused:
        return
