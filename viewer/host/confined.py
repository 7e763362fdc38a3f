"""Reads what isolated runs may have written, without being led further than such a run.

A run in a sandbox may write its project's folder: links, a git repository that borrows from another one, a
``langgraph.json`` that names other folders. Reading that outside of the sandbox could show what no run
may read, or pass it to the next run. So it is read in a thread that can open only what is open to the run,
and can write nothing. Landlock enforces that, also for the programs that the thread starts, such as git.
Nothing has to be known of all that such files can name.
"""

import os
import sysconfig
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

from django.conf import settings

from viewer.host import kernel
from viewer.host_requests import JobRefused
from viewer.models import Project
from viewer.records.isolation import Isolation, IsolationRefused, isolation_of

Result = TypeVar("Result")

# Programs and libraries of the system.
PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
)
# What Python may still have to import in the thread.
IMPORTED = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
)
_thread = threading.local()


def confined(folder: Path, read: Callable[[], Result], *more: Path) -> Result:
    """Call a function that reads below this folder, and return its result.

    If isolated runs may write the folder, the function can open only what is open to them, and ``more``
    folders. It must not use the database. Raises what it raises, and JobRefused without Landlock.
    """
    roots = None if is_confined() else open_to_runs(folder)
    if roots is None:
        return read()
    # Landlock cannot be lifted again, so the thread is used once.
    with ThreadPoolExecutor(1, "confined") as threads:
        roots += real_paths(map(str, more))
        return threads.submit(copy_context().run, _closed_but_for, roots, read).result()


def is_confined() -> bool:
    """Whether this thread can open only what is open to runs."""
    return getattr(_thread, "is_confined", False)


def _closed_but_for(roots: list[str], read: Callable[[], Result]) -> Result:
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        programs = real_paths([*PROGRAMS, *IMPORTED])
        kernel.restrict_files(programs, [os.devnull], network=False, data=roots)
        kernel.install_filter(kernel.system_call_filter(()))
    except OSError as error:
        reason = error.strerror or str(error)
        raise JobRefused("isolation.unavailable", launcher="landlock", reason=reason) from None
    _thread.is_confined = True
    return read()


def open_to_runs(folder: Path) -> list[str] | None:
    """What the isolated runs that may write this folder may read, besides the system's files.

    None if no isolated run may write it.
    """
    found = list[tuple[int, bool, Project, Isolation, list[str]]]()
    for project in Project.objects.here():
        try:
            isolation = isolation_of(project.isolation)
        except IsolationRefused:
            # Of another version, whose runs may have written.
            isolation = Isolation(launcher="landlock")
        write = real_paths([project.folder, *isolation.write])
        found += [
            (len(root), isolation.is_sandboxed, project, isolation, write)
            for root in write
            # A link in such a folder is a run's as well.
            if is_within(os.path.normpath(folder), root) or is_within(os.path.realpath(folder), root)
        ]
    # A project within another one is closed to the runs of the other one.
    _length, is_sandboxed, project, isolation, write = max(
        found, key=lambda one: one[:2], default=(0, False, Project(), Isolation(), [])
    )
    if not is_sandboxed:
        return None
    read = real_paths(isolation.read)
    # What leads elsewhere since the isolation was set may be a run's.
    roots = [path for path in (*read, *write) if path in isolation.trusted]
    closed = sorted(closed_paths(project, read, write))
    return [part for root in roots for part in parts_without(root, closed)]


def closed_paths(project: Project, read: Iterable[str], write: Iterable[str]) -> set[str]:
    """What no run of this project may open, even if it is in a folder that stays open.

    The folder of another project may be open as a part of the interpreter, but never its environment file.
    """
    found = {os.path.realpath(settings.DATA_DIR)}
    if settings.TLS_KEY:
        found.add(os.path.realpath(settings.TLS_KEY))
    own = os.path.realpath(project.folder)
    for other in Project.objects.here().exclude(pk=project.pk):
        folder = os.path.realpath(other.folder)
        # A project may be within another one.
        if not is_within(own, folder) and folder not in (*read, *write):
            found.add(folder)
        if other.environment_file and other.environment_file != project.environment_file:
            found.add(os.path.realpath(other.environment_file))
    home = Path.home()
    found |= {os.path.realpath(home / name) for name in (".ssh", ".gnupg", ".aws", ".config", ".kube")}
    return found


def is_within(path: str, folder: str) -> bool:
    """Whether a path is this folder, or below it. Links are not followed."""
    return Path(path).is_relative_to(folder)


def real_paths(paths: Iterable[str]) -> list[str]:
    """The paths that exist, and where their links lead, each once."""
    found = dict.fromkeys(
        form for path in paths for form in (os.path.normpath(path), os.path.realpath(path)) if path
    )
    return [path for path in found if path != "/" and os.path.lexists(path)]


def parts_without(root: str, closed: list[str]) -> list[str]:
    """The parts of a folder without those that are closed: Landlock closes nothing within what is open."""
    if not any(is_within(path, root) for path in closed):
        return [root]
    if root in closed:
        return []
    found: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if not entry.is_symlink():
                found += parts_without(entry.path, closed)
    return found
