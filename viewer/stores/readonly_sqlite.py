"""A connection to somebody else's SQLite file that changes nothing: not the file, not its folder.

A plain read-only connection to a store in WAL mode makes ``-wal`` and ``-shm`` beside it and leaves
them there. So the way in depends on what stands there:

no WAL mode             ``mode=ro``, which makes no files
``-wal`` and ``-shm``   ``mode=ro&readonly_shm=1``: a writer is (or was) there, its files are only read
``-wal`` alone          a copy of both, opened in a folder of its own
neither                 ``immutable=1``, and whether the file stayed the same is checked after reading

SQLite opens files by their paths. So what it has opened is compared with what was found without following
links, and a file beside the store that is no plain file is refused before.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from viewer.messages.message import gettext_noop as _
from viewer.stores.protocol import SQLITE_MAGIC, Limits, LocationReplaced, LocationUnreadable
from viewer.stores.safe_open import Identity, open_file

# File systems date writes this coarsely.
CLOCK_TICK_NANOSECONDS = 20_000_000
# A log longer than this is not read: without its index, SQLite reads all of it before the first row.
MAX_LOG_BYTES = 1024**3
_OPTIONS = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
# What one value may have beyond a checkpoint's bytes, for the rest of its row.
_REST_OF_ROW = 1024 * 1024

# A file's size, times and number; None where there is no file.
_Mark = tuple[int, int, int, int] | None


class Changed(Exception):
    """The file was written to while it was read without a lock; what was read is not to be trusted."""


@dataclass(frozen=True, slots=True)
class DatabaseFile:
    """A store: a descriptor of its folder, and its name there. ``scratch`` is where a copy may be made."""

    folder: int
    name: str
    scratch: str | None = None
    # Which file it has to be.
    identity: Identity | None = None


class ReadonlyDatabase:
    """One short connection at a time, bounded by the limits. Does not close the store's folder."""

    def __init__(self, store: DatabaseFile, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._connection: apsw.Connection | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        # What the file looked like when it was opened without a lock; None with one.
        self._mark: tuple[_Mark, _Mark] | None = None
        # Which files stood beside it.
        self._beside: tuple[bool, bool] = (False, False)
        self._deadline = 0.0

    def open(self) -> None:
        """Raises LocationUnreadable or apsw.Error."""
        try:
            before = _open_descriptors()
            address, writes = self._address()
            flags = apsw.SQLITE_OPEN_READWRITE if writes else apsw.SQLITE_OPEN_READONLY
            self._connection = apsw.Connection(address, flags=flags | _OPTIONS)
            self._set_up(self._connection)
            if self._copy is None:
                self._check_opened(before)
        except OSError as error:
            self.close()
            raise LocationUnreadable(_("The file cannot be opened: %(why)s."), why=_why(error)) from None
        except BaseException:
            self.close()
            raise

    def _set_up(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(int(self._limits.lock_seconds * 1000))
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, self._limits.max_bytes + _REST_OF_ROW)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        connection.set_progress_handler(self._is_late, 2000)
        for pragma in ("query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        self._deadline = time.process_time() + self._limits.max_seconds
        # The files are opened by the first statement that reads.
        connection.execute("PRAGMA schema_version").fetchall()

    def _check_opened(self, before: set[int]) -> None:
        """Raises LocationReplaced where SQLite has opened another file than the one in the folder."""
        ends = ("", "-wal", "-shm", "-journal")
        known = {(mark.st_dev, mark.st_ino) for end in ends if (mark := self._status(end)) is not None}
        for descriptor in _open_descriptors() - before:
            with suppress(OSError):
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in known:
                    raise LocationReplaced(_("Its folder was replaced while it was opened."))

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def reset(self) -> None:
        """Close it, to be opened again in a moment."""
        self.close()
        time.sleep(0.01)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def run(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, one by one. Raises apsw.Error."""
        assert self._connection is not None, "The database is not open."
        self._deadline = time.process_time() + self._limits.max_seconds
        cursor = self._connection.cursor()
        try:
            yield from cursor.execute(statement, values)
        except UnicodeDecodeError:
            # An error of SQLite's that quotes what stands in the file.
            raise apsw.CorruptError("The file is damaged.") from None
        finally:
            with suppress(apsw.Error):
                cursor.close(True)

    def is_unchanged(self) -> bool:
        """Whether an error now would be met again: nobody has opened or closed it, or written to it."""
        if self._mark is None:
            return self._beside == self._present_beside()
        return self._mark == self._present_mark()

    def check_unchanged(self) -> None:
        """Raises Changed where a writer was at work since the file was opened without a lock."""
        if self._mark is not None and self._mark != self._present_mark():
            raise Changed

    def _is_late(self) -> bool:
        return time.process_time() > self._deadline

    def _check_identity(self) -> None:
        status, expected = self._status(), self._store.identity
        if status is None:
            raise LocationUnreadable(_("There is nothing at this path."))
        if expected and (status.st_dev, status.st_ino) != (expected.device, expected.inode):
            raise LocationReplaced(_("The file was replaced while it was read."))

    def _address(self) -> tuple[str, bool]:
        """What SQLite is to open, and whether it may write there."""
        self._check_identity()
        self._mark = None
        self._beside = has_wal, has_shm = self._present_beside()
        self._refuse_odd_neighbours()
        path = str(Path(path_of(self._store.folder)) / self._store.name)
        if not self._is_in_wal_mode():
            return _uri(path, "mode=ro"), False
        if has_wal and has_shm:
            return _uri(path, "mode=ro&readonly_shm=1"), False
        self._mark = self._settled_mark()
        if self._mark[1] is not None:
            self._copy = tempfile.TemporaryDirectory(prefix="forkline-", dir=self._store.scratch)
            copied = Path(self._copy.name).resolve() / "store.db"
            for end in ("", "-wal"):
                self._copy_of(end, f"{copied}{end}")
            return _uri(str(copied), "mode=rw"), True
        return _uri(path, "mode=ro&immutable=1"), False

    def _refuse_odd_neighbours(self) -> None:
        """Raises LocationUnreadable for a log that is no plain file, or too long."""
        for end in ("-wal", "-shm", "-journal"):
            status = self._status(end)
            name = self._store.name + end
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise LocationUnreadable(
                    _("“%(name)s” beside it is no plain file, so the store is not opened."), name=name
                )
            if end != "-shm" and status is not None and status.st_size > MAX_LOG_BYTES:
                raise LocationUnreadable(
                    _("“%(name)s” beside it has %(size)s bytes, more than the %(most)s that are read."),
                    name=name,
                    size=f"{status.st_size:,}",
                    most=f"{MAX_LOG_BYTES:,}",
                )

    def _copy_of(self, end: str, target: str) -> None:
        source = open_file(self._store.name + end, self._store.folder)
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LOG_BYTES:
                raise LocationUnreadable(
                    _("A writer left its log beside it, and the file is too large to be read with that.")
                )
            with open(target, "xb") as copy:
                left = status.st_size
                while left > 0 and (data := os.read(source, min(left, 1024 * 1024))):
                    left -= copy.write(data)
        finally:
            os.close(source)

    def _status(self, end: str = "") -> os.stat_result | None:
        try:
            return os.stat(self._store.name + end, dir_fd=self._store.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _present_beside(self) -> tuple[bool, bool]:
        return self._status("-wal") is not None, self._status("-shm") is not None

    def _present_mark(self) -> tuple[_Mark, _Mark]:
        return _mark_of(self._status()), _mark_of(self._status("-wal"))

    def _settled_mark(self) -> tuple[_Mark, _Mark]:
        """The mark, once it is old enough that a further write is sure to change it."""
        for _attempt in range(100):
            mark = self._present_mark()
            newest = max((part[1] for part in mark if part), default=0)
            if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
                break
            time.sleep(0.005)
        return mark

    def _is_in_wal_mode(self) -> bool:
        file = open_file(self._store.name, self._store.folder)
        try:
            header = os.read(file, 20)
        finally:
            os.close(file)
        return header[:16] == SQLITE_MAGIC and header[18:20] == b"\x02\x02"


def path_of(folder: int) -> str:
    """The path of an open folder, without links. Raises OSError."""
    if hasattr(fcntl, "F_GETPATH"):
        return os.fsdecode(fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return str(Path(f"/proc/self/fd/{folder}").readlink())


def _open_descriptors() -> set[int]:
    return {int(path.name) for path in Path("/dev/fd").iterdir()}


def _mark_of(status: os.stat_result | None) -> _Mark:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino) if status else None


def _uri(path: str, options: str) -> str:
    return f"file:{quote(path)}?{options}"


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
