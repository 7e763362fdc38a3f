"""Which launchers and networks work on this machine.

Each is really tried, because rules of the system may forbid it.
"""

import json
import os
import subprocess
import sys
from functools import cache
from tempfile import TemporaryDirectory, TemporaryFile

from viewer.host import kernel
from viewer.host.confined import PROGRAMS, real_paths
from viewer.host.jobs.sandbox import supervisor
from viewer.records.isolation import ALLOWED_HOSTS

PROBE_SECONDS = 10


@cache
def launchers() -> dict[str, str]:
    """The launchers by name, and a network of allowed hosts.

    Each has an empty text if it works here, else why not, as the system says it.
    """
    # What its runs have written is read behind Landlock (viewer/host/confined.py).
    bubblewrap = without_filter() or without_landlock(1) or reason_of(BUBBLEWRAP)
    return {
        "process": "",
        "systemd": reason_of([*scope_command(), "true"]),
        "bubblewrap": bubblewrap,
        "landlock": without_filter() or without_landlock(kernel.TRUNCATE_ABI),
        ALLOWED_HOSTS: bubblewrap or without_allowed_hosts(),
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
    return (_last_line(done.stderr) or f"status {done.returncode}") if done.returncode else ""


def _last_line(printed: bytes) -> str:
    """The last line that a program has printed; empty for none."""
    return "".join(printed.decode(errors="replace").strip().splitlines()[-1:])[:300]


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


def without_allowed_hosts() -> str:
    """Why no run can be limited to allowed hosts; empty if one can: ``true`` is started so.

    Nothing is sent to the hosts, a name and an address that exist nowhere.
    """
    with TemporaryDirectory() as folder, TemporaryFile() as report:
        request = supervisor.SupervisorRequest(
            command=["/bin/true"],
            cwd="/",
            environment={},
            launcher="bubblewrap",
            network="hosts",
            allow=["probe.invalid:443"],
            hosts=[("probe.invalid", 443), ("192.0.2.1", 443)],
            limits={},
            read=real_paths(PROGRAMS),
            write=[],
            closed=[],
            folder=folder,
            temporary=folder,
            hidden=folder,
            umask=0o077,
            seconds_to_end=1.0,
            report=report.fileno(),
        )
        try:
            done = subprocess.run(
                [sys.executable, "-I", supervisor.__file__],
                check=False,
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=PROBE_SECONDS,
                start_new_session=True,
                pass_fds=(report.fileno(),),
            )
            report.seek(0)
            answer = json.loads(report.read() or b"{}")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return str(error)[:300]
    if "in_force" in answer:
        return ""
    # What bubblewrap itself prints says more.
    return _last_line(done.stderr) or str(answer.get("refused") or f"status {done.returncode}")[:300]
