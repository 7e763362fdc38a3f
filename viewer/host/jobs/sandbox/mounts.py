"""Checks what bubblewrap has mounted before the run starts: it takes paths, which may lead elsewhere by then.

Another run that may write a folder can replace what is in it by links, also those on which something is
mounted. What is mounted stays, so the check is final.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

# A device and a number.
Identity = tuple[int, int]
# What bubblewrap makes itself, by file system.
OWN = {"/": "tmpfs", "/dev": "tmpfs", "/dev/shm": "tmpfs", "/dev/pts": "devpts", "/dev/mqueue": "mqueue"}  # noqa: S108
DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "console")}
ESCAPED = re.compile(r"\\([0-7]{3})")


def identities(paths: Iterable[str]) -> set[Identity]:
    """What is at these paths, but for those that lead through a link."""
    found = set()
    for path in paths:
        with suppress(OSError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                if str(Path(f"/proc/self/fd/{opened}").readlink()) == path:
                    found.add(_identity(os.fstat(opened)))
            finally:
                os.close(opened)
    return found


def are_complete(process: int, temporary: str) -> bool:
    """Whether a process in bubblewrap sees its own ``/tmp``, and so everything that is mounted."""
    if _identity_of(seen(process, "/tmp")) != _identity(Path(temporary).stat()):  # noqa: S108
        return False
    # bubblewrap unmounts its former root last.
    with suppress(OSError):
        return [point for point, _kind in mounts_of(process)].count("/") == 1
    return False


def wrong_mount(
    process: int, targets: Mapping[str, set[Identity]], closed: Collection[str], files: Collection[str]
) -> str:
    """Where a process sees something that was not chosen; empty if it does so nowhere.

    ``targets`` are the paths at which something may be mounted, with what that may be. Nothing of what is
    outside may be at those in ``closed``, and ``files`` are made for this run.
    """
    mounted = mounts_of(process)
    outside = {point for point, _kind in mounts_of(os.getpid())}
    times = Counter(point for point, _kind in mounted)
    for point, kind in mounted:
        if point in targets or point in closed or point in files:
            continue
        is_own = times[point] == 1 and (OWN.get(point) == kind or _is_device(process, point))
        # bubblewrap protects parts of /proc so. Mounts outside come with the folders that they are in.
        is_within = any(point.startswith(f"{target.rstrip('/')}/") for target in targets)
        if not (
            is_own
            or (kind == "proc" and f"{point}/".startswith("/proc/"))
            or (is_within and point in outside)
        ):
            return point
    for target, may_be in targets.items():
        found = None if target in closed or target in files else seen(process, target)
        if found is not None and not stat.S_ISLNK(found.st_mode) and _identity(found) not in may_be:
            return target
    for target in closed:
        with suppress(OSError):
            if _identity_of(seen(process, target)) == _identity(Path(target).stat()):
                return target
    return ""


def mounts_of(process: int) -> list[tuple[str, str]]:
    """Where something is mounted, and the type of its file system. Raises OSError."""
    found = []
    for line in Path(f"/proc/{process}/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _mark, after = line.partition(" - ")
        point = ESCAPED.sub(lambda one: chr(int(one[1], 8)), before.split(" ")[4])
        found.append((point, after.split(" ", 1)[0]))
    return found


def seen(process: int, path: str) -> os.stat_result | None:
    """What a process sees at a path; None if that is nothing, or behind a link."""
    opened = -1
    try:
        opened = os.open(f"/proc/{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in Path(path).parts[1:]:
            above, opened = opened, os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
            os.close(above)
        return os.fstat(opened)
    except OSError:
        return None
    finally:
        if opened >= 0:
            os.close(opened)


def _is_device(process: int, point: str) -> bool:
    found = seen(process, point) if point in DEVICES else None
    return found is not None and stat.S_ISCHR(found.st_mode)


def _identity_of(status: os.stat_result | None) -> Identity | None:
    return _identity(status) if status else None


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
