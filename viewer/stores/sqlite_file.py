"""A SQLite file of another program, read without changing the file or its folder."""

import ctypes
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from viewer import sqlite_pragmas
from viewer.stores import DatabaseFile, protocol
from viewer.stores.safe_open import is_in_wal_mode, may_have_frames, open_file

# Turns SQLite's errors into ours: the bytes are damaged, exceed a limit, or could not be read this time.


_LOCKED = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_NO_MEMORY = (apsw.NoMemError, MemoryError)
# Caused by the system or a writer: the next attempt may read the same bytes.
_PASSING = (
    *_LOCKED,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.SchemaChangeError,
    OSError,
)


class UnfinishedWrite(protocol.LocationUnreadable):
    """A transaction was not finished, and only a writer can roll it back."""

    def __init__(self) -> None:
        super().__init__("store.half_written")


def is_damage(error: BaseException) -> bool:
    """Whether the error is about damaged bytes, so that other rows may be readable."""
    return isinstance(error, apsw.Error) and not isinstance(
        error, (*_PASSING, *_NO_MEMORY, apsw.InterruptError)
    )


def location_error(error: Exception, limits: protocol.ReadLimits) -> protocol.LocationUnreadable:
    """The error for a file that cannot be read."""
    if isinstance(error, _LOCKED):
        return protocol.LocationUnreadable("store.locked")
    if isinstance(error, apsw.InterruptError):
        return _refused(protocol.too_slow(limits))
    if isinstance(error, _NO_MEMORY):
        return _refused(protocol.too_much_memory(limits))
    if isinstance(error, apsw.NotADBError):
        return protocol.LocationUnreadable("store.not_sqlite")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError):
        return UnfinishedWrite()
    if isinstance(error, _PASSING):
        return protocol.LocationUnreadable("store.read_failed_retry", why=_reason(error))
    return protocol.LocationUnreadable("store.table_damaged")


def row_error(error: Exception, limits: protocol.ReadLimits) -> protocol.Unreadable:
    """The error for a row that cannot be read."""
    if isinstance(error, apsw.InterruptError):
        return protocol.too_slow(limits)
    if isinstance(error, _NO_MEMORY):
        return protocol.too_much_memory(limits)
    if isinstance(error, apsw.TooBigError):
        return protocol.LimitExceeded("store.row_too_large")
    if isinstance(error, _PASSING):
        return protocol.Unavailable("store.read_failed", why=_reason(error))
    if "JSON" in str(error):
        return protocol.Incomplete("store.row_not_json")
    # A writer may be active. If the row does not change for a while, it counts as broken.
    return protocol.Incomplete("store.row_damaged")


def _refused(error: protocol.Unreadable) -> protocol.LocationLimitExceeded:
    return protocol.LocationLimitExceeded(error.message)


def _reason(error: Exception) -> str:
    """SQLite's own description of an error, without anything that quotes the file."""
    if isinstance(error, OSError):
        return str(error.strerror)
    code = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code) or type(error).__name__)


# A connection to an SQLite file of another program that changes neither the file nor its folder.
#
# A plain read-only connection to a file in WAL mode creates ``-wal`` and ``-shm`` next to it and leaves them
# there. So how the file is opened depends on the files that exist:
#
# no WAL mode             ``mode=ro``, which creates no files
# ``-wal`` and ``-shm``   ``mode=ro&readonly_shm=1``: a writer has or had it open; its files are only read
# ``-wal`` alone          a copy of both files, opened in a temporary folder
# neither                 ``immutable=1``; after reading, the file must not have changed
# ``-wal`` without frames the same, and SQLite does not see it: with ``-shm``, it would wait for a writer
#
# SQLite opens files by their paths. So the files that it has opened are compared with the files that were
# found without following links, and a journal that is not a plain file is refused before SQLite opens it.


# The resolution of a file system's modification times.
CLOCK_TICK_NANOSECONDS = 20_000_000
# A longer log is not read: without the shared index, SQLite reads the whole log before the first row.
MAX_LOG_BYTES = 1024**3
_OPTIONS = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
# The most bytes of a row besides the checkpoint.
_REST_OF_ROW = 1024 * 1024

# A file's size, times and inode; None if there is no file.
_State = tuple[int, int, int, int] | None


class ChangedWhileReading(Exception):
    """A writer changed the file while it was read without a lock, so the rows may be wrong."""


class _WithoutLogs(apsw.VFS):
    """The file system as SQLite sees it, without logs."""

    name = "without-logs"

    def __init__(self) -> None:
        super().__init__(self.name, "")

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        """Whether a file exists or can be accessed."""
        return not pathname.endswith("-wal") and super().xAccess(pathname, flags)


_WITHOUT_LOGS = _WithoutLogs()


def _leave_owners() -> None:
    """Have SQLite give no file to another user.

    As root, it gives each log, index and journal that it opens to the owner of the database, also to read it.
    Then the program that made them can no longer write. It does so if ``geteuid`` returns 0.
    """
    not_root = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value or 0
    _WITHOUT_LOGS.xSetSystemCall("geteuid", not_root)


_leave_owners()


class ReadonlyDatabase:
    """One short connection at a time, bounded by the limits. Does not close the file's folder."""

    def __init__(self, file: DatabaseFile, limits: protocol.ReadLimits) -> None:
        self._file = file
        self._limits = limits
        self._connection: apsw.Connection | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        # The state of the file and its log when it was opened without a lock; None with a lock.
        self._state: tuple[_State, _State] | None = None
        # The name of the file system that SQLite uses; None for its own.
        self._vfs: str | None = None
        # Whether there was a log and a shared index when it was opened.
        self._companions: tuple[bool, bool] = (False, False)
        self._deadline = 0.0
        # Whether a transaction of this connection blocks no writer.
        self._is_in_wal_mode = False

    def open(self) -> None:
        """Open the file. Raises LocationUnreadable or apsw.Error."""
        try:
            before = _open_descriptors()
            address, writes = self._address()
            flags = apsw.SQLITE_OPEN_READWRITE if writes else apsw.SQLITE_OPEN_READONLY
            self._connection = apsw.Connection(address, flags=flags | _OPTIONS, vfs=self._vfs)
            self._set_up(self._connection)
            if self._copy is None:
                self._check_opened(before)
        except OSError as error:
            self.close()
            why = error.strerror or type(error).__name__
            raise protocol.LocationUnreadable("store.file_not_opened", why=why) from None
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
        sqlite_pragmas.restrict_reading(connection)
        self._deadline = time.process_time() + self._limits.max_seconds
        sqlite_pragmas.open_files(connection)

    def _check_opened(self, before: set[int]) -> None:
        """Raise LocationReplaced if SQLite has opened a file other than the four in the folder."""
        ends = ("", "-wal", "-shm", "-journal")
        known = {(status.st_dev, status.st_ino) for end in ends if (status := self._status(end)) is not None}
        for descriptor in _open_descriptors() - before:
            with suppress(OSError):
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in known:
                    raise protocol.LocationReplaced("store.folder_replaced")

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def reset(self) -> None:
        """Close the connection, and wait a moment before it is opened again."""
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
            yield from cursor.execute(statement, tuple(map(_bindable, values)))
        except UnicodeDecodeError:
            # The original message quotes the file.
            raise apsw.CorruptError("The file is damaged.") from None
        finally:
            with suppress(apsw.Error):
                cursor.close(True)

    @property
    def reads_one_state(self) -> bool:
        """Whether everything that is read in ``one_state`` is from one state of the file."""
        return self._is_in_wal_mode

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Read one state of a file in WAL mode. In other modes, a transaction would block writers."""
        connection = self._connection
        if connection is None or not self._is_in_wal_mode or connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")

    def is_unchanged(self) -> bool:
        """Whether no writer has opened, closed or changed the file, so that an error would occur again."""
        if self._state is None:
            return self._companions == self._current_companions()
        return self._state == self._current_state()

    def check_unchanged(self) -> None:
        """Raises ChangedWhileReading if a writer has changed the file since it was opened without a lock."""
        if self._state is not None and self._state != self._current_state():
            raise ChangedWhileReading

    def _is_late(self) -> bool:
        return time.process_time() > self._deadline

    def _check_identity(self) -> None:
        status, expected = self._status(), self._file.identity
        if status is None:
            raise protocol.LocationUnreadable("store.nothing_at_path")
        if expected and (status.st_dev, status.st_ino) != (expected.device, expected.inode):
            raise protocol.LocationReplaced("store.file_replaced")

    def _address(self) -> tuple[str, bool]:
        """The URI that SQLite opens, and whether SQLite may write to that file."""
        self._check_identity()
        self._state = self._vfs = None
        self._companions = has_wal, has_shm = self._current_companions()
        self._check_journals()
        path = str(Path(path_of(self._file.folder)) / self._file.name)
        self._is_in_wal_mode = is_in_wal_mode(self._file.name, self._file.folder)
        if not self._is_in_wal_mode:
            return _uri(path, "mode=ro"), False
        has_frames = has_wal and may_have_frames(self._file.name + "-wal", self._file.folder)
        if has_frames and has_shm:
            return _uri(path, "mode=ro&readonly_shm=1"), False
        self._state = self._stable_state()
        if self._state[1] is not None and not has_frames:
            if may_have_frames(self._file.name + "-wal", self._file.folder):
                raise ChangedWhileReading
            self._vfs = _WITHOUT_LOGS.name
        elif self._state[1] is not None:
            self._copy = tempfile.TemporaryDirectory(prefix="forkline-", dir=self._file.scratch)
            copied = Path(self._copy.name).resolve() / "store.db"
            for end in ("", "-wal"):
                self._copy_of(end, f"{copied}{end}")
            return _uri(str(copied), "mode=rw"), True
        return _uri(path, "mode=ro&immutable=1"), False

    def _check_journals(self) -> None:
        """Raise LocationUnreadable for a journal that is not a plain file, or is too long."""
        for end in ("-wal", "-shm", "-journal"):
            status = self._status(end)
            name = self._file.name + end
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise protocol.LocationUnreadable("store.companion_not_a_file", name=name)
            if end != "-shm" and status is not None and status.st_size > MAX_LOG_BYTES:
                raise protocol.LocationUnreadable(
                    "store.companion_too_large",
                    name=name,
                    size=f"{status.st_size:,}",
                    most=f"{MAX_LOG_BYTES:,}",
                )

    def _copy_of(self, end: str, target: str) -> None:
        source = open_file(self._file.name + end, self._file.folder)
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LOG_BYTES:
                raise protocol.LocationUnreadable("store.journal_too_large")
            with open(target, "xb") as copy:
                left = status.st_size
                while left > 0 and (data := os.read(source, min(left, 1024 * 1024))):
                    left -= copy.write(data)
        finally:
            os.close(source)

    def _status(self, end: str = "") -> os.stat_result | None:
        try:
            return os.stat(self._file.name + end, dir_fd=self._file.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _current_companions(self) -> tuple[bool, bool]:
        return self._status("-wal") is not None, self._status("-shm") is not None

    def _current_state(self) -> tuple[_State, _State]:
        return _state_of(self._status()), _state_of(self._status("-wal"))

    def _stable_state(self) -> tuple[_State, _State]:
        """The current state, once it is so old that a write certainly changes it. Waits up to a second."""
        for _attempt in range(100):
            state = self._current_state()
            newest = max((part[1] for part in state if part), default=0)
            if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
                break
            time.sleep(0.005)
        return state


def path_of(folder: int) -> str:
    """The path of an open folder, with links resolved. Raises OSError."""
    if hasattr(fcntl, "F_GETPATH"):
        return os.fsdecode(fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return str(Path(f"/proc/self/fd/{folder}").readlink())


def _open_descriptors() -> set[int]:
    return {int(path.name) for path in Path("/dev/fd").iterdir()}


def _bindable(value: Any) -> Any:
    """The value; the original bytes of a text that is not UTF-8."""
    if isinstance(value, str) and not value.isascii():
        with suppress(UnicodeEncodeError):
            value.encode()
            return value
        return value.encode("utf-8", "surrogateescape")
    return value


def _state_of(status: os.stat_result | None) -> _State:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino) if status else None


def _uri(path: str, options: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{options}"
