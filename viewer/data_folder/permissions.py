"""Forkline's files in the data folder: restricted to their owner, and still those that were opened.

Files of others are not changed.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder.failures import database_path

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Ends the name of a file that is being written (viewer/host/jobs/files.py).
NEW = r"(\.[0-9a-f]{32})?"
# The paths of Forkline's files below the data folder. All others belong to somebody else.
OURS = re.compile(
    rf"forkline\.sqlite3(-wal|-shm|-journal)?|secret_key(\.[0-9a-f]{{16}})?|host_id|permitted_paths|(preparing|worker|in_use|search|retention)\.lock"
    rf"|backups(/forkline-[^/]+\.sqlite3(-wal|-shm|-journal)?)?"
    rf"|guard(/[0-9]+\.json{NEW}|/tmp[^/]+)?|imports(/{UUID}\.lock)?|jobs(/{UUID}(/.+)?)?"
    rf"|key_proxy(/({UUID}\.json|port){NEW}|/(start|proxy)\.lock|/log)?"
    rf"|log-not-emptied|preflight(/{UUID}(/.+)?|/[a-z]+-[0-9]+\.lock)?"
    rf"|prewarm(/[0-9]+(-[0-9a-f]+)?\.(lock|log|socket|request))?",
    re.DOTALL,
)


@dataclass(slots=True)
class Restricted:
    """``paths`` were open to other users and were restricted; ``left`` are still open. Both are relative."""

    paths: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def restrict(folder: Path, thorough: bool = False) -> Restricted:
    """Remove other users' permissions on Forkline's files. Links are never followed.

    Files below our folders are checked if other users could reach them, or if ``thorough``.
    """
    found = Restricted()
    _restrict(folder, "", found, leave=is_shared(folder))
    if not found.paths and not found.left and not thorough and not _is_open_inside(folder):
        return found
    for name, path in _ours_below(folder, ""):
        _restrict(path, name, found)
    return found


def is_shared(folder: Path) -> bool:
    """Whether other users need the folder, so that its permissions must not change."""
    found = folder.stat()
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX
    return not is_ours or folder == Path.home() or folder == folder.parent or folder.parent == Path("/")


def _is_open_inside(folder: Path) -> bool:
    """Whether one of Forkline's files directly in the folder is open to other users."""
    with os.scandir(folder) as entries:
        return any(
            OURS.fullmatch(entry.name) and stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode) & 0o077
            for entry in entries
            if not entry.is_symlink()
        )


def _ours_below(folder: Path, below: str) -> Iterator[tuple[str, Path]]:
    """Yield Forkline's files and folders with their relative paths, each folder before its contents."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        name = f"{below}{entry.name}"
        if not OURS.fullmatch(name) or entry.is_symlink():
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder or below or _holds_only_ours(entry):
            yield name, Path(entry.path)
        if is_folder:
            yield from _ours_below(Path(entry.path), f"{name}/")


def _holds_only_ours(folder: "os.DirEntry[str]") -> bool:
    """Whether a folder such as ``jobs`` contains only Forkline's files."""
    try:
        return all(OURS.fullmatch(f"{folder.name}/{name}") for name in os.listdir(folder))  # noqa: PTH208
    except OSError:
        return False


def _restrict(path: Path, name: str, found: Restricted, leave: bool = False) -> None:
    """Restrict one file or folder and record it.

    An O_PATH descriptor opens nothing, so SQLite's locks stay, and the path cannot be replaced meanwhile.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it was deleted
    try:
        state = os.fstat(descriptor)
        mode = stat.S_IMODE(state.st_mode)
        is_folder = stat.S_ISDIR(state.st_mode)
        # Another hard link to the file may belong to somebody else.
        is_ours = is_folder or state.st_nlink == 1
        if stat.S_ISLNK(state.st_mode) or not mode & 0o077:
            return
        if leave or not is_ours or state.st_uid != os.geteuid():
            found.left.append(name)
            return
        private = PRIVATE_FOLDER if is_folder else PRIVATE_FILE
        Path(f"/proc/self/fd/{descriptor}").chmod(mode & private)
        found.paths.append(name)
    except OSError:
        found.left.append(name)
    finally:
        os.close(descriptor)


# Whether the data folder is still the one that this process has opened.
#
# SQLite would continue to write to a deleted file, and create an empty one for each new connection.


# The data folder that ``up`` serves, for the processes that it starts.
SERVED = "FORKLINE_SERVED"


@dataclass(frozen=True, slots=True)
class Opened:
    """Folder and database by device and inode. ``held`` are descriptors that keep the inodes from others."""

    folder: str
    database: str
    held: tuple[int, ...] = ()


_opened: Opened | None = None


def remember() -> None:
    """Record the current data folder, or the one that ``up`` passed to this process."""
    global _opened  # noqa: PLW0603
    if _opened is None:
        folder = Path(settings.DATA_DIR)
        paths = [folder] if postgresql.is_used() else [folder, database_path()]
        held = tuple(os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths)
        _opened = _from_parent() or Opened(mark_of(folder), database_mark(), held)


def discard() -> None:
    """Discard the recorded data folder."""
    global _opened  # noqa: PLW0603
    if _opened:
        for descriptor in _opened.held:
            os.close(descriptor)
    _opened = None


def is_remembered() -> bool:
    """Whether this process has opened a database."""
    return _opened is not None


def hand_on() -> None:
    """Pass the data folder's identity to child processes, which refuse any other one."""
    remember()
    if _opened:
        os.environ[SERVED] = f"{settings.DATA_DIR}|{_opened.folder}|{_opened.database}"


def _from_parent() -> Opened | None:
    # The path may hold the sign as well.
    named, _sign, database = os.environ.get(SERVED, "").rpartition("|")
    path, _sign, folder = named.rpartition("|")
    return Opened(folder, database) if path == str(settings.DATA_DIR) and database else None


def mark_of(path: Path) -> str:
    """Device and inode; empty if nothing is there."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def database_mark() -> str:
    """The mark of the database's file; on a server, what cannot change without a restart."""
    return "server" if postgresql.is_used() else mark_of(database_path())


def what_changed() -> str:
    """Why the data folder is not the one that was opened, as a sentence; empty if it is."""
    expected = _opened or _from_parent()
    if expected is None:
        return ""
    folder = Path(settings.DATA_DIR)
    now = Opened(mark_of(folder), database_mark())
    if (now.folder, now.database) == (expected.folder, expected.database):
        return ""
    if not now.folder:
        text = _("The data folder %(path)s is missing. Put it back, or stop Forkline and start it again.")
    elif not now.database:
        text = _("The database in %(path)s is missing. Put it back, or stop Forkline and start it again.")
    else:
        text = _(
            "The data folder %(path)s was replaced. Stop Forkline and start it again to use the new one."
        )
    return text % {"path": folder}


def problem_while_served() -> str:
    """Return why the database cannot be used, for a process that never creates one; empty if it can."""
    if not is_remembered() and not _from_parent():
        if not database_mark():
            text = _("There is no database in %(path)s yet. Start Forkline with “manage.py up”.")
            return text % {"path": settings.DATA_DIR}
        remember()
    return what_changed()
