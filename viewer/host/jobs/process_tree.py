"""The processes of a run together: found, killed, and ended at their limits. Needs no Django.

The process that is at the root of a tree is a subreaper, such as a supervisor, or has not exited: otherwise
a descendant whose parent exits belongs to nobody.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path

import psutil

# A listing can miss a process whose parent exits meanwhile. After this many listings without a new process,
# all are known.
QUIET_LISTINGS = 20
# How long ``kill_tree`` tries.
SECONDS_TO_KILL = 5.0
# Descendants that start others faster than they are stopped are killed after this time.
SECONDS_TO_STOP = 1.0
# For the descendants that were killed, since one of them has ended.
SECONDS_TO_DIE = 10.0


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


def end_descendants(keep: int = 0) -> None:
    """Kill every descendant, and wait for all but ``keep``. Stopped first, so that none starts another.

    Does not wait for processes that the kernel does not end, or that are another user's.
    """
    stopped: set[int] = set()
    quiet, end = 0, time.monotonic() + SECONDS_TO_STOP
    # One that goes on in a new process all the time can be missed by a listing.
    while quiet < QUIET_LISTINGS and time.monotonic() < end:
        new = descendants_of(os.getpid()) - stopped
        signal_each(new, signal.SIGSTOP)
        stopped |= new
        quiet = 0 if new else quiet + 1
    known: set[int] = set()
    empty, changed_at = 0, time.monotonic()
    while empty < QUIET_LISTINGS and time.monotonic() - changed_at < SECONDS_TO_DIE:
        found = descendants_of(os.getpid())
        signal_each(found, signal.SIGKILL)
        for process in found - {keep}:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        if found != known:
            known, changed_at = found, time.monotonic()
        empty = 0 if found - {keep} else empty + 1
        time.sleep(0.001 if found - {keep} else 0)


# What the processes of a run use together. The kernel limits single processes, or a control group.

LIMIT_POLL_SECONDS = 0.1


def tasks_of_user() -> int:
    """The processes and threads of this user, which the kernel counts against its limit of them."""
    count = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.getuid():
                count += process.num_threads()
    return count


def reap(child: int) -> None:
    """Wait for descendants whose parent has exited, so that their processor time is counted."""
    for process in psutil.Process().children():
        if process.pid != child:
            with suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)


def reached(limits: Mapping[str, int], uncounted: int) -> str:
    """The limit that all processes of the run together have reached; empty for none."""
    if not {"memory_mb", "cpu_seconds", "processes"} & limits.keys():
        return ""
    memory, tasks = 0, -uncounted
    found = psutil.Process().children(recursive=True)
    own = os.times()
    seconds = own.children_user + own.children_system
    for process in found:
        with suppress(psutil.Error), process.oneshot():
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
            tasks += process.num_threads()
            memory += process.memory_info().rss
    most = limits.get("memory_mb", 0) * 1024**2
    if most and memory > most and shared_once(found) > most:
        return "memory_mb"
    if 0 < limits.get("cpu_seconds", 0) <= seconds:
        return "cpu_seconds"
    return "processes" if 0 < limits.get("processes", 0) < tasks else ""


def shared_once(processes: Iterable[psutil.Process]) -> int:
    """The memory of processes in bytes, in which what they share counts once.

    What a process shares cannot be read if it has forbidden that with ``PR_SET_DUMPABLE``.
    """
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.AccessDenied:
            with suppress(psutil.Error):
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


# The control group of a run that systemd has started in a scope.

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Where the kernel counts what it has refused or killed.
EVENTS_OF_SCOPE = (
    ("memory_mb", "memory", "memory.events", "oom_kill"),
    ("memory_mb", "memory", "memory.oom_control", "oom_kill"),
    ("processes", "pids", "pids.events", "max"),
)


def control_group(controller: str) -> Path:
    """The folder of this process's control group. In their first version, each controller has its own."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = dict(line.split(":", 2)[1:] for line in lines)
    own = f"{controller}/{groups[controller]}" if controller in groups else groups.get("", "")
    return CONTROL_GROUPS / own.lstrip("/")


def refused_in_scope(limits: Mapping[str, int]) -> str:
    """The limit at which the kernel has refused or killed something of this scope; empty for none."""
    for limit, controller, file, name in EVENTS_OF_SCOPE:
        with suppress(FileNotFoundError):
            lines = (control_group(controller) / file).read_text().splitlines()
            if limit in limits and int(dict(line.split() for line in lines).get(name, 0)):
                return limit
    return ""


def forbid_new_processes() -> None:
    """Let no process of this scope start another, if the kernel counts them, so that none can run away."""
    with suppress(OSError):
        (control_group("pids") / "pids.max").write_text("1")


# The run until its end.


def watch(child: int, limits: Mapping[str, int], launcher: str, seconds_to_end: float) -> tuple[int, str]:
    """Wait for the end of a run. Return its wait status, and the limit that ended it, or an empty text.

    ``child`` is its first process, and this process its supervisor. After SIGTERM, the run is ended in time:
    who kills this process as well could miss a descendant, which would then belong to nobody.
    """
    # The processes that are not the run's own.
    uncounted = 2 if launcher == "bubblewrap" else 0
    is_in_scope = launcher == "systemd"
    started = time.monotonic()
    wall = limits.get("wall_seconds")
    is_measured = bool({"memory_mb", "cpu_seconds", "processes"} & limits.keys())
    descriptor = os.pidfd_open(child)
    polled = select.poll()
    polled.register(descriptor, select.POLLIN)
    ends, woken = started + wall if wall else None, _wake_at_signals()
    polled.register(woken, select.POLLIN)
    terminated: list[float] = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: terminated.append(time.monotonic()))
    while True:
        due = min(
            (one for one in (ends, *(at + seconds_to_end for at in terminated[:1])) if one), default=None
        )
        left = None if due is None else max(0.0, due - time.monotonic())
        pause = LIMIT_POLL_SECONDS if is_measured else left
        polled.poll(None if pause is None else min(pause, pause if left is None else left) * 1000 + 1)
        with suppress(BlockingIOError):
            os.read(woken, 4096)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            os.close(descriptor)
            return status, refused_in_scope(limits) if is_in_scope else ""
        reap(child)
        now = time.monotonic()
        is_terminated = bool(terminated) and now - terminated[0] >= seconds_to_end
        limit = "wall_seconds" if ends and now >= ends else reached(limits, uncounted)
        limit = limit or (refused_in_scope(limits) if is_in_scope else "")
        if limit or is_terminated:
            os.close(descriptor)
            if is_in_scope:
                forbid_new_processes()
            end_descendants(keep=child)
            _pid, status = os.waitpid(child, 0)
            return status, "" if is_terminated else limit


def _wake_at_signals() -> int:
    """A descriptor that can be read after a signal. Otherwise, waiting continues after its handler."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading
