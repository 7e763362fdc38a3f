"""How a project's runs are isolated, what was in force for a job, and what a host can do, as texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.formats import count_text
from viewer.models import Host, Project
from viewer.records.isolation import (
    ALLOWED_HOSTS,
    LAUNCHERS,
    LIMITS,
    Isolation,
    IsolationRefused,
    isolation_of,
)

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
