"""How the runs of a project are isolated: their launcher, sandbox and limits, as a project's row has them."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, get_args

import msgspec
from django.db import transaction

from viewer.host_requests import ListOpenFolders, ask
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Project
from viewer.records.audit import Action, Audited, record

Launcher = Literal["process", "systemd", "bubblewrap", "landlock"]
Network = Literal["all", "hosts", "none"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
NETWORKS: tuple[Network, ...] = get_args(Network)
# Beside the launchers in what a host has tried: whether a run can have a network of allowed hosts.
ALLOWED_HOSTS = "allowed_hosts"
# Those that close the files and processes of others.
WALLS = ("bubblewrap", "landlock")
# The limits in the order in which they are shown, with their largest values.
LIMITS: Mapping[str, int] = {
    "memory_mb": 1024**2,
    "cpu_seconds": 10**7,
    "processes": 10**5,
    "open_files": 10**6,
    "wall_seconds": 10**7,
}
# No Python starts with less.
LEAST = {"memory_mb": 64, "open_files": 32, "processes": 4}
MAX_FOLDERS = 50
MAX_HOSTS = 100
HTTPS_PORT = 443


class IsolationRefused(UserFacingError):
    """What was asked for does not exist, or cannot be had. The message says which, and what to do."""


class Isolation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a project asks for. A limit of 0 is none. The default is a plain process without limits.

    ``allow`` are the only hosts and ports that a run reaches, if its network is ``hosts``. ``read`` and
    ``write`` are further folders that a run in a sandbox may use. ``trusted`` is what was open to
    runs when this was set (viewer/host/jobs/sandbox.py), and ``trusted_write`` what they may write.
    """

    launcher: Launcher = "process"
    network: Network = "all"
    allow: tuple[str, ...] = ()
    memory_mb: int = 0
    cpu_seconds: int = 0
    processes: int = 0
    open_files: int = 0
    wall_seconds: int = 0
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    trusted_write: tuple[str, ...] = ()

    @property
    def is_off(self) -> bool:
        """Whether runs start as plain processes, which may be prewarmed."""
        return self == Isolation()

    @property
    def is_sandboxed(self) -> bool:
        return self.launcher in WALLS

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are set."""
        return {name: getattr(self, name) for name in LIMITS if getattr(self, name)}

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The allowed hosts, without brackets, with their ports."""
        pairs = (one.rpartition(":") for one in self.allow)
        return [(host.strip("[]"), int(port)) for host, _colon, port in pairs]

    def as_data(self) -> dict[str, Any]:
        """As a row has it; empty for the default."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def without_noted(data: Mapping[str, Any]) -> dict[str, Any]:
    """A row's isolation as a person has set it, without what was noted then."""
    return {name: value for name, value in data.items() if name not in ("trusted", "trusted_write")}


def isolation_of(data: object) -> Isolation:
    """The isolation in a row. Raises IsolationRefused: an older or newer Forkline may not know all of it."""
    try:
        return checked(msgspec.convert(data, Isolation))
    except msgspec.ValidationError as error:
        raise IsolationRefused("isolation.malformed", reason=str(error)) from None


def checked(isolation: Isolation) -> Isolation:
    """Return it if its values make sense together. Raises IsolationRefused."""
    for name, most in LIMITS.items():
        value = getattr(isolation, name)
        least = LEAST.get(name, 1)
        if value and not least <= value <= most:
            raise IsolationRefused("isolation.out_of_range", name=name, least=least, most=most)
    _check_network(isolation)
    folders = (*isolation.read, *isolation.write)
    if folders and not isolation.is_sandboxed:
        raise IsolationRefused("isolation.folders_need_sandbox")
    for path in folders:
        if not path.startswith("/") or "\0" in path or ".." in path.split("/") or len(path) > 1000:
            raise IsolationRefused("isolation.folder_not_absolute", path=path)
    if len(folders) > MAX_FOLDERS:
        raise IsolationRefused("isolation.too_many_folders", most=MAX_FOLDERS)
    return isolation


def _check_network(isolation: Isolation) -> None:
    if isolation.network == "none" and not isolation.is_sandboxed:
        raise IsolationRefused("isolation.network_needs_sandbox")
    if isolation.network == "hosts" and isolation.launcher != "bubblewrap":
        raise IsolationRefused("isolation.hosts_need_bubblewrap")
    if isolation.network == "hosts" and not isolation.allow:
        raise IsolationRefused("isolation.no_hosts")
    if isolation.network != "hosts" and isolation.allow:
        raise IsolationRefused("isolation.hosts_without_network")
    if len(isolation.allow) > MAX_HOSTS:
        raise IsolationRefused("isolation.too_many_hosts", most=MAX_HOSTS)
    if other := next((one for one in isolation.allow if allowed_host(one) != one), ""):
        raise IsolationRefused("isolation.invalid_host", host=other[:300])


def change_isolation(project: Project, isolation: Isolation) -> None:
    """Store what a person asks for, and what is open to the project's runs now: a run may change that.

    Raises HostRefusal, such as HostAway: only the project's host knows it.
    """
    data = isolation.as_data()
    if isolation.is_sandboxed:
        found = ask(ListOpenFolders(project.pk, list(isolation.read), list(isolation.write)))
        data["trusted"] = sorted([*found.read, *found.write])
        data["trusted_write"] = found.write
    with transaction.atomic():
        project.change_isolation(data)
        record(Action.CHANGED, Audited.PROJECT, project.pk, f"isolation: {isolation.launcher}")


# Allowed hosts.


ALLOWED_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:/@\[\]]+))(?::(?P<port>[0-9]{1,5}))?"
)
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# What some programs read as an address of IPv4, such as 127.1 or 0x7f000001.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def allowed_host(text: str) -> str:
    """The host and its port as a project's row has them, such as ``api.openai.com:443``.

    The port is 443 unless the text has one. A name is in lower case and ASCII. An address of IPv6 is in
    brackets. Raises IsolationRefused for anything else.
    """
    found = ALLOWED_HOST.fullmatch(text.strip())
    port = int(found["port"] or HTTPS_PORT) if found else 0
    host = _host(found["address"] or found["name"], is_address=bool(found["address"])) if found else ""
    if not host or not 0 < port < 2**16:
        raise IsolationRefused("isolation.invalid_host", host=text[:300])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def allowed_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Each host of these texts once, without empty ones. Raises IsolationRefused."""
    return tuple(dict.fromkeys(allowed_host(text) for text in texts if text.strip()))


def _host(text: str, *, is_address: bool) -> str:
    """The name or address as it is stored; empty if no connection can be made to it."""
    with suppress(ValueError):
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        address = mapped or address
        # An address of a link needs its device, which the run does not have.
        is_local = isinstance(address, ipaddress.IPv6Address) and address.is_link_local
        is_one = not (address.is_unspecified or address.is_multicast or is_local)
        return str(address) if is_one and str(address) != "255.255.255.255" else ""
    if is_address:
        return ""
    try:
        name = text.lower().removesuffix(".")
        plain = name.encode("idna").decode()
        # Clients write some names otherwise than Python does, such as one with ß.
        is_same = plain == name or plain.encode().decode("idna") == name
    except UnicodeError:
        return ""
    labels = plain.split(".")
    is_name = is_same and len(plain) <= 253 and all(map(LABEL.fullmatch, labels))
    return plain if is_name and not NUMBER.fullmatch(labels[-1]) else ""


def missing(isolation: Isolation, found: Mapping[str, Any]) -> UserMessage | None:
    """Why a host cannot isolate so, from what it has ``found`` (``Host.launchers``); None if it can."""
    if isolation.launcher == "process":
        return None
    reason = found.get(isolation.launcher)
    if reason is None:
        return UserMessage("isolation.not_probed", {"launcher": isolation.launcher})
    if reason:
        return UserMessage("isolation.unavailable", {"launcher": isolation.launcher, "reason": str(reason)})
    if isolation.network == "hosts" and (reason := found.get(ALLOWED_HOSTS)):
        return UserMessage("isolation.hosts_unavailable", {"reason": str(reason)})
    return None
