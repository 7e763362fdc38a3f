"""Open a location without following a link below its root, and recognise SQLite files."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from viewer.stores import Identity
from viewer.stores.protocol import LocationReplaced, LocationUnreadable

# Open a location without following a link below the root that it has to be in.
#
# A path is resolved when a location is added. Later, a link may be created in one of its folders. So each
# read walks the path again, one folder at a time, and compares the identity of the folder or file that it
# reaches with the recorded one.


# The folders above the location need not be readable.
_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Types of file systems whose files the kernel makes up as they are read. Nobody can store anything there.
KERNEL_FILE_SYSTEMS = frozenset(
    (
        *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "cpuset", "debugfs", "tracefs", "bpf"),
        *("securityfs", "selinuxfs", "smackfs", "apparmorfs", "pstore", "efivarfs", "configfs", "fusectl"),
        *("binfmt_misc", "mqueue", "nsfs", "resctrl", "rpc_pipefs", "nfsd", "autofs", "xenfs", "dax"),
    )
)
_READ_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """What is at a location's path.

    ``folder`` is a descriptor of the folder, or of the folder that the file is in. ``name`` is the file's
    name, empty for a folder.
    """

    folder: int
    name: str
    status: os.stat_result
    identity: Identity

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


@contextmanager
def found_at(path: Path, roots: Sequence[Path] = ()) -> Iterator[Found]:
    """Open the folder or file at a path. Links are followed only above the root that the path is in.

    In a path outside all roots, no link is followed. Raises LocationUnreadable.
    """
    with ExitStack() as opened:
        try:
            base, parts = _base_of(path, roots)
            folder = os.open(base, _PASS_THROUGH)
        except (OSError, ValueError) as error:
            raise _unreadable(error) from None
        opened.callback(os.close, folder)
        for part in parts[:-1]:
            folder = _open_part(part, folder)
            opened.callback(os.close, folder)
        found = _last(parts[-1] if parts else ".", folder)
        if found.is_folder:
            opened.callback(os.close, found.folder)
        _refuse_system(found)
        yield found


def _refuse_system(found: Found) -> None:
    """Raise LocationUnreadable for the root of the file system, and for what only the kernel writes.

    The root contains every project, and a location is never trusted as code.
    """
    if found.is_folder and os.path.samestat(found.status, Path("/").stat()):
        raise LocationUnreadable("store.root_folder")
    if kind := kernel_file_system(found.status.st_dev):
        raise LocationUnreadable("store.kernel_files", kind=kind)


def kernel_file_system(device: int) -> str:
    """The type of the file system with this device number if the kernel makes up its files, else nothing."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            before, _mark, after = line.partition(" - ")
            kind = after.split(" ", 1)[0]
            if before.split(" ", 3)[2] == number and kind in KERNEL_FILE_SYSTEMS:
                return kind
    return ""


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads to a folder or to something below it, also by a link or another mount of it."""
    path = Path(os.path.realpath(path))
    try:
        own = folder.stat()
    except OSError:
        return path.is_relative_to(os.path.realpath(folder))
    for one in (path, *path.parents):
        with suppress(OSError):
            if os.path.samestat(one.stat(), own):
                return True
    return False


def open_file(name: str, folder: int) -> int:
    """A descriptor of a file in a folder, for reading. Raises OSError, also for a link (ELOOP)."""
    return os.open(name, _READ_FILE, dir_fd=folder)


def open_folder(name: str, folder: int) -> int:
    """A descriptor of a folder in a folder, for listing. Raises OSError, also for a link."""
    return os.open(name, _READ_FOLDER, dir_fd=folder)


def identity_of(descriptor: int, status: os.stat_result) -> Identity:
    """The identity of the folder or file with this status, on the file system of an open descriptor."""
    filesystem = 0
    with suppress(OSError, AttributeError):
        filesystem = os.fstatvfs(descriptor).f_fsid
    return Identity(status.st_dev, status.st_ino, filesystem)


def _base_of(path: Path, roots: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    """The innermost root of the path, or else the root of the file system, and the parts below it."""
    bases = [base for root in roots for base in (root, root.resolve()) if path.is_relative_to(base)]
    base = max(bases, key=lambda base: len(base.parts), default=Path(path.anchor))
    return base, path.relative_to(base).parts


def _open_part(part: str, above: int) -> int:
    try:
        return os.open(part, _PASS_THROUGH | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        raise _unreadable(error, part, above) from None


def _last(part: str, above: int) -> Found:
    try:
        status = os.stat(part, dir_fd=above, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _is_link(part)
        if not stat.S_ISDIR(status.st_mode):
            return Found(above, part, status, identity_of(above, status))
        folder = open_folder(part, above)
    except OSError as error:
        raise _unreadable(error, part, above) from None
    status = os.fstat(folder)
    return Found(folder, "", status, identity_of(folder, status))


def _is_link(part: str) -> LocationReplaced:
    return LocationReplaced("store.link_in_path", part=part.encode("utf-8", "backslashreplace").decode())


def _unreadable(error: Exception, part: str = "", above: int = -1) -> LocationUnreadable:
    with suppress(OSError, ValueError):
        if above >= 0 and stat.S_ISLNK(os.stat(part, dir_fd=above, follow_symlinks=False).st_mode):
            return _is_link(part)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return LocationUnreadable("store.nothing_at_path")
    if isinstance(error, OSError):
        return LocationUnreadable("store.path_failed", why=str(error.strerror))
    return LocationUnreadable("store.path_invalid")


# Recognises SQLite files by their first bytes. Imports no SQLite library, which only reader
# processes load.


_MAGIC = b"SQLite format 3\x00"
# The header of a write-ahead log: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
LOG_HEADER_BYTES = 32
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def check_is_sqlite(found: Found) -> None:
    """Raise LocationUnreadable if a location's file is not an SQLite file."""
    status = found.status
    start = b""
    if stat.S_ISREG(status.st_mode):
        if status.st_size == 0:
            raise LocationUnreadable("store.file_empty")
        try:
            start = _first_bytes(found.name, found.folder, len(_MAGIC))
        except OSError as error:
            raise LocationUnreadable("store.path_failed", why=str(error.strerror)) from None
    if start != _MAGIC:
        raise LocationUnreadable("store.unknown_kind")


def is_in_wal_mode(name: str, folder: int) -> bool:
    """Whether this file of an open folder is an SQLite file in WAL mode. Raises OSError."""
    header = _first_bytes(name, folder, 20)
    return header[:16] == _MAGIC and header[18:20] == b"\x02\x02"


def may_have_frames(name: str, folder: int) -> bool:
    """Whether this log of an open folder may hold frames. SQLite ignores all of a log with another header.

    So has the log of a writer that was killed before its first frame. Raises OSError.
    """
    header = _first_bytes(name, folder, LOG_HEADER_BYTES + 1)
    page_size = int.from_bytes(header[8:12], "big")
    is_page_size = 512 <= page_size <= 65536 and page_size & (page_size - 1) == 0
    return len(header) > LOG_HEADER_BYTES and header[:4] in _LOG_MAGIC and is_page_size


def _first_bytes(name: str, folder: int, count: int) -> bytes:
    file = open_file(name, folder)
    try:
        return os.read(file, count)
    finally:
        os.close(file)
