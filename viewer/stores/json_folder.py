"""A folder of JSON files: ``<branch>/<id>_p-<parent>.json``, or without branches. Opened only for reading.

Each folder is opened from the descriptor of the one above it, so that no link is followed, even if one is
created while the folder is read.
"""

import errno
import os
import stat
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush, nlargest
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from viewer.messages.message import UserMessage
from viewer.stores import protocol
from viewer.stores.safe_open import kernel_file_system, open_file, open_folder

# Longer than a step of any file system's clock, in seconds.
MAX_STEP_SECONDS = 5.0


@dataclass(slots=True)
class ListedFolder:
    """A folder as it was listed. Times are monotonic, in seconds."""

    fingerprint: str
    # When this fingerprint was first seen, and when the names were last listed.
    seen_since: float
    listed_at: float
    # A hash of the name and inode of each file and folder: 8 bytes instead of some 150.
    hashes: "array[int]"


class FolderCursor:
    """The folders of one location as they were listed, by their keys. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._folders: dict[str, ListedFolder] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._folders))

    def __contains__(self, key: str) -> bool:
        return key in self._folders

    def __len__(self) -> int:
        """The number of files and folders in all of them."""
        return sum(len(folder.hashes) for folder in self._folders.values())

    def is_unchanged(self, key: str, fingerprint: str) -> bool:
        """Whether a folder with this fingerprint certainly has the same files as when it was listed."""
        folder = self._folders[key]
        is_trusted = folder.listed_at - folder.seen_since > MAX_STEP_SECONDS
        return is_trusted and folder.fingerprint == fingerprint

    def add(self, key: str, fingerprint: str, found: Iterable[tuple[str, int]]) -> list[str] | None:
        """Record the names and inodes in a folder, whose fingerprint was determined before they were listed.

        Returns the names that it did not have before; None if one was removed or replaced, or if nothing
        explains why the fingerprint differs.
        """
        now, before = self._clock(), self._folders.get(key)
        by_hash = {hash(one): one[0] for one in found}
        is_same = before is not None and before.fingerprint == fingerprint
        since = before.seen_since if before and is_same else now
        self._folders[key] = ListedFolder(fingerprint, since, now, array("q", by_hash))
        known = set(before.hashes) if before else set[int]()
        new = [name for number, name in by_hash.items() if number not in known]
        is_explained = before is None or is_same or bool(new)
        return new if is_explained and known <= by_hash.keys() else None


# Branch names contain slashes, but not this many.
MAX_FOLDER_DEPTH = 40
# Characters of a key, as a row has it, and of a folder's, so that the names in it have room.
MAX_KEY, MAX_FOLDER_KEY = 1_000, 740
# Descriptors of folders that are open at once.
MAX_OPEN_FOLDERS = 16
# Once the newest files are searched among this many names, the folders that changed earlier are left out.
MAX_SEARCHED = 10_000
_KINDS = (
    (stat.S_ISFIFO, "store.pipe"),
    (stat.S_ISSOCK, "store.socket"),
    (stat.S_ISBLK, "store.device"),
    (stat.S_ISCHR, "store.device"),
    (stat.S_ISDIR, "store.folder_named_json"),
)


class JsonFolder:
    """Every ``*.json`` file below a folder, which is given as a path or an open descriptor.

    ``formats`` may be empty if the folder is only listed. What is in the folder ``skipped`` does not exist
    for it.
    """

    kind: Literal["json"] = "json"

    def __init__(
        self,
        folder: Path | int,
        limits: protocol.ReadLimits,
        formats: Sequence[protocol.StoreFormat],
        skipped: Path | None = None,
    ) -> None:
        self.formats, self.limits = formats, limits
        self._skipped = _status_of(skipped)
        self._folder = folder
        self._cursor: FolderCursor | None = None
        # The names listed so far, and whether a device is that of a file system of the kernel.
        self._names, self._kernel_devices = 0, dict[int, bool]()
        # Open descriptors by the folder's key. The key of the location itself is "".
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_folders()

    def entries(self, cursor: FolderCursor | None = None) -> Iterator[protocol.Entry | protocol.ReadProblem]:
        """The entry or problem of each file. Adds the names in each folder to the ``cursor``.

        File systems of the kernel are left out. Raises LocationUnreadable if the folder itself cannot be
        listed, and LocationLimitExceeded if it contains too many names.
        """
        try:
            os.scandir(self._root()).close()
        except OSError as error:
            raise _cannot_list(error) from None
        self._cursor, self._names = cursor, 0
        pending = [("", 0)]
        while pending:
            folder, depth = pending.pop()
            yield from self._in_folder(folder, depth, pending)

    def _in_folder(
        self, folder: str, depth: int, pending: list[tuple[str, int]]
    ) -> Iterator[protocol.Entry | protocol.ReadProblem]:
        """The entries and problems of one folder. Adds the folders below it to ``pending``."""
        try:
            # Determined before the names are read, so that the next listing finds what is added in between.
            fingerprint = self.fingerprint(folder.rstrip("/"))
            files = self._files_in(folder.rstrip("/"))
        except FileNotFoundError:
            return
        except OSError as error:
            reason = _cannot_list(error).message
            yield _unavailable_problem(folder.rstrip("/") or ".", reason, "below" if folder else "anything")
            return
        if self._cursor is not None:
            self._cursor.add(folder.rstrip("/"), fingerprint, _names_and_inodes(files))
        for file in files:
            key = folder + file.name
            try:
                if not file.is_dir(follow_symlinks=False):
                    if file.name.endswith(".json"):
                        yield _entry_or_problem(key, file.stat(follow_symlinks=False))
                elif depth < MAX_FOLDER_DEPTH and len(key) <= MAX_FOLDER_KEY:
                    pending.append((f"{key}/", depth + 1))
                else:
                    yield _foreign(key, "store.nested_folders")
            except FileNotFoundError:
                continue
            except OSError as error:
                yield _unavailable_problem(key, unavailable(error).message)

    def _files_in(self, key: str) -> list[os.DirEntry[str]]:
        """The files and folders in a folder; none in a file system of the kernel, such as /proc in a chroot.

        Raises OSError, also for a link, and LocationLimitExceeded.
        """
        device = os.fstat(self.descriptor(key)).st_dev
        if device not in self._kernel_devices:
            self._kernel_devices[device] = bool(kernel_file_system(device))
        if self._kernel_devices[device]:
            return []
        most = self.limits.max_names
        with os.scandir(self.descriptor(key)) as found:
            files = list(islice(self._without_skipped(found), most - self._names + 1))
        self._names += len(files)
        if self._names > most:
            raise protocol.LocationLimitExceeded("store.too_many_names", most=f"{most:,}")
        return files

    def added(self, cursor: FolderCursor) -> list[str] | None:
        """The keys of the files that were added since an earlier listing. Adds them to its cursor.

        None if only a complete listing shows what has changed. The cursor must not be used again then.
        """
        added: list[str] = []
        pending = list(cursor)
        self._names = 0
        try:
            while pending:
                key = pending.pop()
                fingerprint = self.fingerprint(key)
                if key in cursor and cursor.is_unchanged(key, fingerprint):
                    continue
                names = cursor.add(key, fingerprint, self.names(key))
                is_too_deep = key.count("/") >= MAX_FOLDER_DEPTH - 1 or len(key) > MAX_FOLDER_KEY
                if names is None or is_too_deep:
                    return None
                keys = [f"{key}/{name}" if key else name for name in names]
                pending += [one.rstrip("/") for one in keys if one.endswith("/")]
                added += [one for one in keys if not one.endswith("/")]
        except (OSError, protocol.LocationLimitExceeded):
            return None
        return added

    def newest(self, limit: int) -> list[protocol.Entry | protocol.ReadProblem]:
        """The last files by name, in the order of their names, which begin with the time.

        Folders are listed in the order in which they last changed, until there are enough names. Folders
        that cannot be listed are left out: ``entries`` lists them as problems.
        """
        found: list[tuple[str, str]] = []
        listed = 0
        # Minus the time at which a folder changed, its depth and its key.
        pending = [(0, 0, "")]
        while pending and (listed < MAX_SEARCHED or len(found) < limit):
            _changed, depth, key = heappop(pending)
            with suppress(OSError):
                names = os.listdir(self.descriptor(key.rstrip("/")))  # noqa: PTH208
                files = [name for name in names if name.endswith(".json")]
                listed += len(files)
                found += ((name, key) for name in nlargest(limit, files))
                if len(files) < len(names) and depth < MAX_FOLDER_DEPTH:
                    for name, changed in self._folders_among(names, key):
                        if len(key) + len(name) <= MAX_FOLDER_KEY:
                            heappush(pending, (-changed, depth + 1, f"{key}{name}/"))
        newest = nlargest(limit, found)
        return [item for name, key in reversed(newest) if (item := self.entry(key + name))]

    def _folders_among(self, names: Sequence[str], key: str) -> Iterator[tuple[str, int]]:
        """The names in a folder that are names of folders, and when those changed."""
        for name in (name for name in names if not name.endswith(".json")):
            # Another program may have removed one of them since they were listed.
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=self.descriptor(key.rstrip("/")), follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    yield name, status.st_mtime_ns

    def fingerprint(self, key: str) -> str:
        """The fingerprint of a folder, as a cursor compares it. Raises OSError, also for a link."""
        return folder_fingerprint(os.fstat(self.descriptor(key)))

    def names(self, key: str) -> list[tuple[str, int]]:
        """The names and inodes of the files and folders in a folder. Raises as ``_files_in``.

        Names of folders end with a slash. Other names than those of JSON files are left out.
        """
        return list(_names_and_inodes(self._files_in(key)))

    def entry(self, key: str) -> protocol.Entry | protocol.ReadProblem | None:
        """The file with this relative path; None if there is none, or if the path leads out of the folder."""
        folder, _slash, name = key.rpartition("/")
        if not key.endswith(".json") or any(part in ("", ".", "..") for part in key.split("/")):
            return None
        try:
            status = os.stat(name, dir_fd=self.descriptor(folder), follow_symlinks=False)
            return _entry_or_problem(key, status)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            return _unavailable_problem(key, unavailable(error).message)

    def read(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        """The bytes of a file. Raises Unreadable."""
        folder, _slash, name = entry.real_key.rpartition("/")
        entry, data = self._bytes(entry, folder, name)
        path = entry.real_key
        return protocol.RawCheckpoint(entry, data, lambda store_format: store_format.ids_in_path(path))

    def _bytes(self, entry: protocol.Entry, folder: str, name: str) -> tuple[protocol.Entry, bytes]:
        """The file's entry and bytes. The entry is a new one if the file has changed since it was listed."""
        if entry.size > self.limits.max_bytes:
            raise protocol.too_large(entry.size, self.limits)
        try:
            file = open_file(name, self.descriptor(folder))
        except OSError as error:
            raise unavailable(error) from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise protocol.Unavailable("store.no_longer_a_file")
            if (fingerprint := fingerprint_of(status)) != entry.fingerprint:
                entry = replace(
                    entry, fingerprint=fingerprint, size=status.st_size, changed_at=status.st_mtime
                )
            return entry, self._all_bytes(file, entry.size)
        except OSError as error:
            raise unavailable(error) from None
        finally:
            os.close(file)

    def _all_bytes(self, file: int, size: int) -> bytes:
        """The bytes of an open file of this size. If it grows, at most 1 MiB beyond the limit are read."""
        limit = self.limits.max_bytes
        # One more byte shows whether the file has grown.
        data = os.read(file, min(size, limit) + 1)
        if len(data) == size:
            return data
        parts, total, started = [data], len(data), time.monotonic()
        while data and total <= limit:
            if time.monotonic() - started > self.limits.max_seconds:
                raise protocol.Unavailable("store.too_slow")
            data = os.read(file, 1024 * 1024)
            parts.append(data)
            total += len(data)
        return b"".join(parts)

    def _root(self) -> int:
        if isinstance(self._folder, int):
            return self._folder
        if "" not in self._open:
            self._open[""] = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._open[""]

    def descriptor(self, folder: str) -> int:
        """An open descriptor of the folder with this key. Raises OSError, also for a path with a link."""
        root = self._root()
        if not folder:
            return root
        if folder not in self._open:
            if len(self._open) >= MAX_OPEN_FOLDERS:
                self._close_folders(but="")
            self._open[folder] = _descend(root, folder.split("/"), self._skipped)
        return self._open[folder]

    def _without_skipped(self, found: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for one in found:
            if self._skipped is not None and one.is_dir(follow_symlinks=False):
                # Not by its inode alone: for a mount point, that is another folder's.
                with suppress(OSError):
                    if os.path.samestat(one.stat(follow_symlinks=False), self._skipped):
                        continue
            yield one

    def _close_folders(self, but: str | None = None) -> None:
        for key in [key for key in self._open if key != but]:
            os.close(self._open.pop(key))


def _names_and_inodes(found: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, int]]:
    for one in found:
        if one.is_dir(follow_symlinks=False):
            yield f"{one.name}/", one.inode()
        elif one.name.endswith(".json"):
            yield one.name, one.inode()


def _status_of(folder: Path | None) -> os.stat_result | None:
    """The status of a folder; None if there is none."""
    try:
        return folder.stat() if folder is not None else None
    except OSError:
        return None


def _descend(root: int, parts: list[str], skipped: os.stat_result | None) -> int:
    """A descriptor of the folder that these names lead to, one below the other. Raises OSError.

    No name leads to or through the folder that is ``skipped``, nor upwards.
    """
    if ".." in parts:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "..")
    opened = os.dup(root)
    for part in parts:
        try:
            below = open_folder(part, opened)
        finally:
            os.close(opened)
        opened = below
        if skipped is not None and os.path.samestat(os.fstat(opened), skipped):
            os.close(opened)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), part)
    return opened


def unavailable(error: OSError) -> protocol.Unavailable:
    """The error for a file whose bytes the system does not provide."""
    if isinstance(error, FileNotFoundError):
        return protocol.Unavailable("store.vanished")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return protocol.Unavailable("store.became_link")
    return protocol.Unavailable("store.read_failed", why=str(error.strerror))


def fingerprint_of(status: os.stat_result) -> str:
    """The fingerprint of a file with this status."""
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def folder_fingerprint(status: os.stat_result) -> str:
    """A text that differs if names were added to or removed from a folder.

    Within one step of the file system's clock, it may stay the same.
    """
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}:{status.st_dev}"


def _entry_or_problem(key: str, status: os.stat_result) -> protocol.Entry | protocol.ReadProblem:
    """The entry of a regular file; the problem of anything else."""
    fingerprint = fingerprint_of(status)
    if stat.S_ISREG(status.st_mode):
        if not key.isprintable():
            return _foreign(key, "store.name_unprintable", fingerprint)
        return protocol.Entry(key, fingerprint, status.st_size, status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        return _foreign(key, "store.link", fingerprint)
    reason = next((reason for test, reason in _KINDS if test(status.st_mode)), "store.not_a_file")
    return _foreign(key, reason, fingerprint)


def _foreign(key: str, reason: str, fingerprint: str = "") -> protocol.ReadProblem:
    return protocol.ReadProblem(_printable(key), UserMessage(reason), "foreign", fingerprint)


def _unavailable_problem(
    key: str, reason: UserMessage, hides: Literal["below", "anything"] = "below"
) -> protocol.ReadProblem:
    return protocol.ReadProblem(_printable(key), reason, "unavailable", hides=hides)


def _printable(key: str) -> str:
    """The key with escapes in place of bytes that are not UTF-8, shortened if these make it too long."""
    return key.encode("utf-8", "backslashreplace").decode()[:MAX_KEY]


def _cannot_list(error: OSError) -> protocol.LocationUnreadable:
    if isinstance(error, FileNotFoundError):
        return protocol.LocationUnreadable("store.folder_missing")
    if isinstance(error, NotADirectoryError):
        return protocol.LocationUnreadable("store.not_a_folder")
    return protocol.LocationUnreadable("store.folder_not_listed", why=str(error.strerror))
