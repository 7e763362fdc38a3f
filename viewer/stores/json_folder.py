"""A folder of JSON files: ``<branch>/<id>_p-<parent>.json``, or flat. Only ever opened for reading.

Everything is opened from the descriptor of the folder on, one folder at a time, so that no link is followed
whoever puts one there meanwhile.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.redaction.known_secrets import NONE_KNOWN
from viewer.redaction.texts import redacted_name
from viewer.stores.parsing import snapshot_of, too_large
from viewer.stores.protocol import (
    Entry,
    Limits,
    LocationUnreadable,
    ReadProblem,
    Snapshot,
    StoreFormat,
    Unavailable,
    Unreadable,
)
from viewer.stores.safe_open import open_file, open_folder

# Folders below folders: branch names hold slashes, but not this many.
MAX_FOLDERS_DEEP = 40
# Branches whose folders stay open at once.
MAX_OPEN_FOLDERS = 16
_KINDS = (
    (stat.S_ISFIFO, _("It is a pipe, not a file.")),
    (stat.S_ISSOCK, _("It is a socket, not a file.")),
    (stat.S_ISBLK, _("It is a device, not a file.")),
    (stat.S_ISCHR, _("It is a device, not a file.")),
    (stat.S_ISDIR, _("It is a folder, although its name ends in .json.")),
)


class JsonFolder:
    """Every ``*.json`` below a folder, given by its path or an open descriptor. Links are not followed.

    ``formats`` are the engines' that read it; none are needed to list it.
    """

    kind: Literal["json"] = "json"

    def __init__(self, folder: Path | int, limits: Limits, formats: Sequence[StoreFormat] = ()) -> None:
        self._folder = folder
        self._formats = formats
        self.limits = limits
        self.known = NONE_KNOWN
        # Descriptors of folders, by their keys; that of the location itself has the key "".
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_folders()

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """Each file once. Raises LocationUnreadable where the folder itself cannot be listed."""
        try:
            os.scandir(self._root()).close()
        except OSError as error:
            raise _no_folder(error) from None
        waiting = [("", 0)]
        while waiting:
            folder, depth = waiting.pop()
            yield from self._in_folder(folder, depth, waiting)

    def _in_folder(
        self, folder: str, depth: int, waiting: list[tuple[str, int]]
    ) -> Iterator[Entry | ReadProblem]:
        try:
            with os.scandir(self._descriptor(folder.rstrip("/"))) as found:
                files = list(found)
        except FileNotFoundError:
            return
        except OSError as error:
            reason = _no_folder(error).words
            yield ReadProblem(_shown(folder.rstrip("/")) or ".", reason, "unavailable", hides_others=True)
            return
        for file in files:
            key = folder + file.name
            try:
                if not file.is_dir(follow_symlinks=False):
                    if file.name.endswith(".json"):
                        yield _judged(key, file.stat(follow_symlinks=False))
                elif depth < MAX_FOLDERS_DEEP:
                    waiting.append((f"{key}/", depth + 1))
                else:
                    yield ReadProblem(_shown(key), Words(_("Its folders are nested too deep.")), "foreign")
            except FileNotFoundError:
                continue
            except OSError as error:
                yield ReadProblem(_shown(key), unavailable(error).words, "unavailable", hides_others=True)

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The file with this relative path; None where there is none, or where it lies outside."""
        folder, _slash, name = key.rpartition("/")
        if not key.endswith(".json") or any(part in ("", ".", "..") for part in key.split("/")):
            return None
        try:
            return _judged(key, os.stat(name, dir_fd=self._descriptor(folder), follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            return ReadProblem(_shown(key), unavailable(error).words, "unavailable", hides_others=True)

    def read(self, entry: Entry) -> Snapshot:
        """The checkpoint. Raises Unreadable."""
        started = time.process_time()
        path = entry.place
        folder, _slash, name = path.rpartition("/")
        entry, data = self._bytes(entry, folder, name)
        try:
            return snapshot_of(
                data,
                entry,
                self._formats,
                lambda one: one.outside_of_file(path),
                self.limits,
                started,
                self.known,
            )
        except Unreadable as error:
            error.entry = entry
            raise

    def _bytes(self, entry: Entry, folder: str, name: str) -> tuple[Entry, bytes]:
        """The file's bytes, and the entry that they are of: the file may have changed since it was listed."""
        if entry.size > self.limits.max_bytes:
            raise too_large(entry.size, self.limits)
        try:
            file = open_file(name, self._descriptor(folder))
        except OSError as error:
            raise unavailable(error) from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise Unavailable(_("It is no file any more."))
            if (mark := _mark(status)) != entry.fingerprint:
                entry = replace(entry, fingerprint=mark, size=status.st_size, changed_at=status.st_mtime)
            return entry, self._whole(file, entry.size)
        except OSError as error:
            raise unavailable(error) from None
        finally:
            os.close(file)

    def _whole(self, file: int, size: int) -> bytes:
        # One byte more than it had, to see whether it has grown.
        most = self.limits.max_bytes
        data = os.read(file, min(size, most) + 1)
        if len(data) == size:
            return data
        parts, total, started = [data], len(data), time.monotonic()
        while data and total <= most:
            if time.monotonic() - started > self.limits.max_seconds:
                raise Unavailable(_("Its bytes came too slowly."))
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

    def _descriptor(self, folder: str) -> int:
        """A descriptor of the folder with this key. Raises OSError, also where a part of it is a link."""
        root = self._root()
        if not folder:
            return root
        if folder not in self._open:
            if len(self._open) >= MAX_OPEN_FOLDERS:
                self._close_folders(but="")
            self._open[folder] = _descend(root, folder.split("/"))
        return self._open[folder]

    def _close_folders(self, but: str | None = None) -> None:
        for key in [key for key in self._open if key != but]:
            os.close(self._open.pop(key))


def _descend(root: int, parts: list[str]) -> int:
    """A descriptor of the folder that these names lead to."""
    opened = open_folder(parts[0], root)
    for part in parts[1:]:
        try:
            below = open_folder(part, opened)
        finally:
            os.close(opened)
        opened = below
    return opened


def unavailable(error: OSError) -> Unavailable:
    """What is told where the system does not give a file's bytes, whatever they are."""
    if isinstance(error, FileNotFoundError):
        return Unavailable(_("It vanished while it was being read."))
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Unavailable(_("It, or the folder that it is in, has become a link meanwhile."))
    return Unavailable(_("It could not be read: %(why)s."), why=str(error.strerror))


def _mark(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def _judged(key: str, status: os.stat_result) -> Entry | ReadProblem:
    """What stands there, by its kind: a file is an entry, anything else a fault."""
    mark = _mark(status)
    if stat.S_ISREG(status.st_mode):
        if not key.isprintable():
            return _foreign(key, _("Its name holds signs that cannot be shown."), mark)
        return Entry(key, mark, status.st_size, status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        return _foreign(key, _("It is a link, and links are not followed."), mark)
    reason = next((reason for test, reason in _KINDS if test(status.st_mode)), _("It is not a file."))
    return _foreign(key, reason, mark)


def _foreign(key: str, reason: str, mark: str) -> ReadProblem:
    return ReadProblem(_shown(key), Words(reason), "foreign", mark)


def _shown(key: str) -> str:
    return redacted_name(key.encode("utf-8", "backslashreplace").decode())


def _no_folder(error: OSError) -> LocationUnreadable:
    if isinstance(error, FileNotFoundError):
        return LocationUnreadable(_("The folder is not there any more."))
    if isinstance(error, NotADirectoryError):
        return LocationUnreadable(_("It is not a folder any more."))
    return LocationUnreadable(_("The folder cannot be listed: %(why)s."), why=str(error.strerror))
