"""Which launchers work on this machine. Each is really tried, because rules of the system may forbid it."""

import os
import subprocess
from functools import cache

from viewer.host import kernel

PROBE_SECONDS = 10


@cache
def launchers() -> dict[str, str]:
    """The launchers by name: an empty text if it works here, else why not, as the system says it."""
    return {
        "process": "",
        "systemd": reason_of([*scope_command(), "true"]),
        # What its runs have written is read behind Landlock (viewer/host/confined.py).
        "bubblewrap": without_filter() or without_landlock(1) or reason_of(BUBBLEWRAP),
        "landlock": without_filter() or without_landlock(kernel.TRUNCATE_ABI),
    }


BUBBLEWRAP = [
    *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--size", "1048576"),
    *("--tmpfs", "/dev/shm"),  # noqa: S108
    *("--cap-drop", "ALL", "--die-with-parent", "true"),
]


def scope_command(limits: dict[str, int] | None = None) -> list[str]:
    """The start of a command line that runs the rest in a new scope of systemd, with these limits."""
    found = ["systemd-run", *(["--user"] if os.getuid() else []), "--scope", "--quiet", "--collect"]
    limits = limits or {}
    if "memory_mb" in limits:
        found += ["-p", f"MemoryMax={limits['memory_mb']}M", "-p", "MemorySwapMax=0"]
    if "processes" in limits:
        # With the supervisor.
        found += ["-p", f"TasksMax={limits['processes']}"]
    return [*found, "--"]


def reason_of(command: list[str]) -> str:
    """Why a command does not succeed; empty if it does."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except FileNotFoundError:
        return f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return (last[0] if last else f"status {done.returncode}")[:300] if done.returncode else ""


def without_landlock(least: int) -> str:
    """Why Landlock cannot be used; empty if it can. Truncating files is closed from ``TRUNCATE_ABI``."""
    try:
        version = kernel.landlock_version()
    except OSError as error:
        return f"the kernel has no Landlock, or it is switched off: {error.strerror}"
    if version < least:
        return f"the kernel has version {version} of Landlock, which does not close truncating"
    return ""


def without_filter() -> str:
    """Why system calls cannot be filtered; empty if they can."""
    return "" if kernel.has_filter() else f"the filter of system calls does not know {os.uname().machine}"
