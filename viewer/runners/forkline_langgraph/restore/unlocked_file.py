"""How a SQLite file is opened to read it.

Reading a SQLite file neither changes it nor leaves other files next to it. A plain read-only connection to a
file in WAL mode would create ``-wal`` and ``-shm`` files. How the file is opened therefore depends on the
files that exist, as in viewer/stores/sqlite_file.py.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from forkline_runner.messages import Refused

# Bytes 18 and 19 of a database's header are the versions of its format: 2 means WAL mode.
WRITE_VERSION, IN_WAL_MODE = slice(18, 20), b"\x02\x02"
# How many times a file without a lock is copied because a writer has changed it meanwhile.
MAX_COPIES = 10
# The resolution of a file system's modification times.
CLOCK_TICK_NANOSECONDS = 20_000_000
# The size, times and inode of a file, and of its log; None for a missing one.
State = tuple["tuple[int, int, int, int] | None", ...]


def address_of_file(path: Path, scratch: Path) -> tuple[str, State | None]:
    """Return the URI that SQLite opens, and the state that a file read without a lock must still have.

    The state is None if SQLite locks the file, or opens a copy. ``scratch`` is the folder for a copy. Raises
    Refused and OSError.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    for _attempt in range(MAX_COPIES):
        with open(path, "rb") as file:
            is_wal = file.read(100)[WRITE_VERSION] == IN_WAL_MODE
        if not is_wal:
            return f"file:{quote(os.fsencode(path))}?mode=ro", None
        if log.exists() and index.exists():
            return f"file:{quote(os.fsencode(path))}?mode=ro&readonly_shm=1", None
        state = _stable_state(path)
        if not log.exists():
            return f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", state
        if copy := _copied(path, log, scratch, state):
            return f"file:{quote(os.fsencode(copy))}", None
    raise Refused("langgraph.store_changed", path=path)


def _copied(path: Path, log: Path, scratch: Path, state: State) -> Path | None:
    """Copy a file and its log. Return the copy; None if a writer has changed one of them meanwhile."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    copy = scratch / "source.sqlite"
    with suppress(FileNotFoundError):
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
    return copy if state == state_of(path) else None


def state_of(path: Path) -> State:
    """Return what differs after a writer has changed the file or its log."""
    found: State = ()
    for end in ("", "-wal"):
        try:
            status = Path(f"{path}{end}").stat()
        except FileNotFoundError:
            found += (None,)
        else:
            found += ((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino),)
    return found


def _stable_state(path: Path) -> State:
    """Return the current state, once it is so old that a write certainly changes it. Waits up to a second."""
    for _attempt in range(100):
        state = state_of(path)
        newest = max((one[1] for one in state if one), default=0)
        if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
            break
        time.sleep(0.01)
    return state
