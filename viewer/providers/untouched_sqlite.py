"""A connection to somebody else's SQLite file that changes nothing: not the file, not its folder.

A plain read-only connection to a store in WAL mode makes ``-wal`` and ``-shm`` beside it and leaves
them there. So the way in depends on what stands there:

no WAL mode             ``mode=ro``, which makes no files
``-wal`` and ``-shm``   ``mode=ro&readonly_shm=1``: a writer is (or was) there, its files are only read
``-wal`` alone          a copy of both, opened in a folder of its own
neither                 ``immutable=1``, and whether the file stayed the same is checked after reading
"""

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from viewer.providers.snapshot import LocationUnreadable
from viewer.words import gettext_noop as _

LOCK_SECONDS = 5
# File systems date writes this coarsely.
CLOCK_TICK_NANOSECONDS = 20_000_000
MAGIC = b"SQLite format 3\x00"


# A file's size, times and number; None where there is no file.
_Mark = tuple[int, int, int, int] | None


class Changed(Exception):
    """The file was written to while it was read without a lock; what was read is not to be trusted."""


class UntouchedDatabase:
    """One short connection at a time. ``most_seconds`` bounds every statement."""

    def __init__(self, path: Path, most_seconds: float) -> None:
        self._path = str(path)
        self._most_seconds = most_seconds
        self._connection: sqlite3.Connection | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        # What the file looked like when it was opened without a lock; None with one.
        self._mark: tuple[_Mark, _Mark] | None = None
        # Which files stood beside it.
        self._beside: tuple[bool, bool] = (False, False)
        self._deadline = 0.0

    def open(self) -> None:
        """Raises LocationUnreadable."""
        try:
            self._connection = sqlite3.connect(
                self._address(), uri=True, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise LocationUnreadable(_("The file cannot be opened: %(why)s."), why=_why(error)) from None
        self._connection.set_progress_handler(self._is_late, 2000)
        # What does not decode must not cost the row.
        self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
            self._connection.execute(f"PRAGMA {pragma}")

    def reopen(self) -> None:
        self.close()
        time.sleep(0.01)
        self.open()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def run(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, one by one. Raises sqlite3.Error."""
        assert self._connection is not None, "The database is not open."
        self._deadline = time.monotonic() + self._most_seconds
        try:
            cursor = self._connection.execute(statement, values)
        except UnicodeDecodeError:
            # SQLite's own error quotes what stands in the file.
            raise sqlite3.DatabaseError("The file is damaged.") from None
        try:
            yield from cursor
        finally:
            cursor.close()

    def is_unchanged(self) -> bool:
        """Whether an error now would be met again: nobody has opened or closed it, or written to it."""
        if self._mark is None:
            return self._beside == self._present_beside()
        return self._mark == self._present_mark()

    def check_unchanged(self) -> None:
        """Raises Changed where a writer was at work since the file was opened without a lock."""
        if self._mark is not None and self._mark != self._present_mark():
            raise Changed

    def _is_late(self) -> int:
        return int(time.monotonic() > self._deadline)

    def _address(self) -> str:
        self._mark = None
        self._beside = has_wal, has_shm = self._present_beside()
        if not _is_in_wal_mode(self._path):
            return _uri(self._path, "mode=ro")
        if has_wal and has_shm:
            return _uri(self._path, "mode=ro&readonly_shm=1")
        self._mark = self._settled_mark()
        if self._mark[1] is not None:
            self._copy = tempfile.TemporaryDirectory(prefix="forkline-")
            copied = str(Path(self._copy.name) / "store.db")
            shutil.copyfile(self._path, copied)
            shutil.copyfile(f"{self._path}-wal", f"{copied}-wal")
            return _uri(copied, "mode=rw")
        return _uri(self._path, "mode=ro&immutable=1")

    def _present_beside(self) -> tuple[bool, bool]:
        return Path(f"{self._path}-wal").exists(), Path(f"{self._path}-shm").exists()

    def _present_mark(self) -> tuple[_Mark, _Mark]:
        return _mark_of(self._path), _mark_of(f"{self._path}-wal")

    def _settled_mark(self) -> tuple[_Mark, _Mark]:
        """The mark, once it is old enough that a further write is sure to change it."""
        for _attempt in range(100):
            mark = self._present_mark()
            newest = max((part[1] for part in mark if part), default=0)
            if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
                break
            time.sleep(0.005)
        return mark


def _mark_of(path: str) -> _Mark:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _is_in_wal_mode(path: str) -> bool:
    with open(path, "rb") as file:
        header = file.read(20)
    return header[:16] == MAGIC and header[18:20] == b"\x02\x02"


def _uri(path: str, options: str) -> str:
    return f"file:{quote(path)}?{options}"


def _why(error: Exception) -> str:
    """What the system or SQLite says, in its own language."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
