"""How the runs of a project are isolated: their launcher, sandbox and limits, as a project's row has them."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from viewer.messages.message import UserFacingError, UserMessage

Launcher = Literal["process", "systemd", "bubblewrap", "landlock"]
Network = Literal["all", "none"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
NETWORKS: tuple[Network, ...] = get_args(Network)
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


class IsolationRefused(UserFacingError):
    """What was asked for does not exist, or cannot be had. The message says which, and what to do."""


class Isolation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a project asks for. A limit of 0 is none. The default is a plain process without limits.

    ``read`` and ``write`` are further folders that a run in a sandbox may use. ``trusted`` is what was open
    to the first run since this was set (viewer/host/jobs/sandbox/paths.py).
    """

    launcher: Launcher = "process"
    network: Network = "all"
    memory_mb: int = 0
    cpu_seconds: int = 0
    processes: int = 0
    open_files: int = 0
    wall_seconds: int = 0
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

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

    def as_data(self) -> dict[str, Any]:
        """As a row has it; empty for the default."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


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
    if isolation.network == "none" and not isolation.is_sandboxed:
        raise IsolationRefused("isolation.network_needs_sandbox")
    folders = (*isolation.read, *isolation.write)
    if folders and not isolation.is_sandboxed:
        raise IsolationRefused("isolation.folders_need_sandbox")
    for path in folders:
        if not path.startswith("/") or "\0" in path or ".." in path.split("/") or len(path) > 1000:
            raise IsolationRefused("isolation.folder_not_absolute", path=path)
    if len(folders) > MAX_FOLDERS:
        raise IsolationRefused("isolation.too_many_folders", most=MAX_FOLDERS)
    return isolation


def missing(isolation: Isolation, found: Mapping[str, Any]) -> UserMessage | None:
    """Why a host cannot isolate so, from what it has ``found`` (``Host.launchers``); None if it can."""
    if isolation.launcher == "process":
        return None
    reason = found.get(isolation.launcher)
    if reason is None:
        return UserMessage("isolation.not_probed", {"launcher": isolation.launcher})
    if reason:
        return UserMessage("isolation.unavailable", {"launcher": isolation.launcher, "reason": str(reason)})
    return None
