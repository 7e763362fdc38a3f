"""Kill a process with all that it started, also while the machine is busy. Needs no Django.

The process that is at the root of a tree is a subreaper, such as a supervisor, or has not exited: otherwise
a descendant whose parent exits belongs to nobody.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path

import psutil

# A listing can miss a process whose parent exits meanwhile. After this many listings without a new process,
# all are known.
QUIET_LISTINGS = 20
# How long ``kill_tree`` tries.
SECONDS_TO_KILL = 5.0


def descendants_of(process: int, ended: Set[int] = frozenset()) -> set[int]:
    """The descendants of a process. Those whose parent has exited are children of a subreaper.

    ``ended`` are zombies, which have none.
    """
    found: set[int] = set()
    left = [process]
    while left:
        parent = left.pop()
        try:
            new = {
                int(number)
                for thread in Path(f"/proc/{parent}/task").iterdir()
                for number in (thread / "children").read_text().split()
            }
        except OSError:
            # It has exited, or the kernel has no such list.
            with suppress(psutil.Error):
                found |= {one.pid for one in psutil.Process(parent).children(recursive=True)}
            continue
        left += new - found - ended
        found |= new
    return found


def is_zombie(process: int) -> bool:
    """Whether the process has ended, and its parent has not asked for its status."""
    with suppress(psutil.Error):
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    return False


def signal_each(processes: Iterable[int], number: signal.Signals) -> None:
    """Send the signal to each process that exists, and that is not another user's."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and the others in it, which may have its output open."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_tree(root: int) -> bool:
    """Kill a process once all its descendants are killed. Return whether that was possible in time.

    Until then, the process is only stopped: once it has exited, its descendants are found no more.
    """
    signal_each([root], signal.SIGSTOP)
    killed: set[int] = set()
    # A stopped process reaps none, so there may be thousands, whose ids are not reused meanwhile.
    ended: set[int] = set()
    quiet, end = 0, time.monotonic() + SECONDS_TO_KILL
    while quiet < QUIET_LISTINGS:
        if time.monotonic() > end:
            return False
        found = descendants_of(root, ended)
        signal_each(found - ended, signal.SIGKILL)
        quiet = 0 if found - killed else quiet + 1
        killed = found
        ended |= {one for one in found - ended if is_zombie(one)}
    signal_each([root], signal.SIGKILL)
    return True
