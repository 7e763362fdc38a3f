"""Whether the data folder is still the one that this process has opened.

SQLite would continue to write to a deleted file, and create an empty one for each new connection.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder.failures import database_path

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
    path, _mark, marks = os.environ.get(SERVED, "").partition("|")
    folder, _mark, database = marks.partition("|")
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
