"""A folder of JSON files: ``<branch>/<id>_p-<parent>.json``, or flat. Only ever opened for reading."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from viewer.providers.crewai_format import id_and_parent
from viewer.providers.reading import Outside, snapshot_of, too_large, too_slow
from viewer.providers.snapshot import (
    Broken,
    Entry,
    Fault,
    Foreign,
    Limits,
    LocationUnreadable,
    Snapshot,
    StillWritten,
)
from viewer.redaction.values import shown_name
from viewer.words import Words
from viewer.words import gettext_noop as _

# Folders below folders: branch names hold slashes, but not this many.
MOST_FOLDERS_DEEP = 40
_KINDS = (
    (stat.S_ISFIFO, _("It is a pipe, not a file.")),
    (stat.S_ISSOCK, _("It is a socket, not a file.")),
    (stat.S_ISBLK, _("It is a device, not a file.")),
    (stat.S_ISCHR, _("It is a device, not a file.")),
    (stat.S_ISDIR, _("It is a folder, although its name ends in .json.")),
)


class JsonDirectory:
    """Every ``*.json`` below a folder. Links are not followed."""

    kind: Literal["json"] = "json"

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = str(path)
        self._limits = limits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def entries(self) -> Iterator[Entry | Fault]:
        """Each file once. Raises LocationUnreadable where the folder itself cannot be listed."""
        try:
            os.scandir(self._path).close()
        except OSError as error:
            raise _no_folder(error) from None
        waiting = [("", 0)]
        while waiting:
            folder, depth = waiting.pop()
            yield from self._in_folder(folder, depth, waiting)

    def _in_folder(self, folder: str, depth: int, waiting: list[tuple[str, int]]) -> Iterator[Entry | Fault]:
        try:
            with os.scandir(f"{self._path}/{folder}") as found:
                files = list(found)
        except FileNotFoundError:
            return
        except OSError as error:
            reason = _no_folder(error).words
            yield Fault(_shown(folder.rstrip("/")) or ".", reason, "broken", hides_others=True)
            return
        for file in files:
            key = folder + file.name
            if file.is_dir(follow_symlinks=False):
                if depth < MOST_FOLDERS_DEEP:
                    waiting.append((f"{key}/", depth + 1))
                else:
                    yield Fault(_shown(key), Words(_("Its folders are nested too deep.")), "foreign")
            elif file.name.endswith(".json"):
                try:
                    yield _judged(key, file.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue

    def entry(self, key: str) -> Entry | Fault | None:
        """The file with this relative path; None where there is none, or where it lies outside."""
        parts = key.split("/")
        if not key.endswith(".json") or any(part in ("", ".", "..") for part in parts):
            return None
        try:
            for count in range(1, len(parts)):
                if not stat.S_ISDIR(os.lstat("/".join((self._path, *parts[:count]))).st_mode):
                    return None
            return _judged(key, os.lstat(f"{self._path}/{key}"))
        except (OSError, ValueError):
            return None

    def read(self, entry: Entry) -> Snapshot:
        """The checkpoint. Raises Unreadable."""
        started = time.monotonic()
        data = self._bytes(entry, started)
        folder, _slash, name = entry.key.rpartition("/")
        checkpoint_id, parent_id = id_and_parent(name.removesuffix(".json"))
        return snapshot_of(data, entry, Outside(checkpoint_id, parent_id, folder), self._limits, started)

    def _bytes(self, entry: Entry, started: float) -> bytes:
        if entry.size > self._limits.most_bytes:
            raise too_large(entry.size, self._limits)
        try:
            # What was a file a moment ago may be a pipe now: never wait for one, never follow a link.
            file = os.open(
                f"{self._path}/{entry.key}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            )
        except FileNotFoundError:
            raise StillWritten(_("It vanished while it was being read.")) from None
        except OSError as error:
            raise Broken(_("It cannot be opened: %(why)s."), why=str(error.strerror)) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Foreign(_("It is not a file."))
            return self._whole(file, entry.size, started)
        except OSError as error:
            raise Broken(_("It cannot be read: %(why)s."), why=str(error.strerror)) from None
        finally:
            os.close(file)

    def _whole(self, file: int, size: int, started: float) -> bytes:
        # One byte more than it had, to see whether it has grown.
        data = os.read(file, size + 1)
        if len(data) == size:
            return data
        parts, total = [data], len(data)
        while data and total <= self._limits.most_bytes:
            if time.monotonic() - started > self._limits.most_seconds:
                raise too_slow(self._limits)
            data = os.read(file, 1024 * 1024)
            parts.append(data)
            total += len(data)
        return b"".join(parts)


def _judged(key: str, status: os.stat_result) -> Entry | Fault:
    """What stands there, by its kind: a file is an entry, anything else a fault."""
    mark = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
    if stat.S_ISREG(status.st_mode):
        if not key.isprintable():
            return _foreign(key, _("Its name holds signs that cannot be shown."), mark)
        return Entry(key, mark, status.st_size, status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        return _foreign(key, _("It is a link, and links are not followed."), mark)
    reason = next((reason for test, reason in _KINDS if test(status.st_mode)), _("It is not a file."))
    return _foreign(key, reason, mark)


def _foreign(key: str, reason: str, mark: str) -> Fault:
    return Fault(_shown(key), Words(reason), "foreign", mark)


def _shown(key: str) -> str:
    return shown_name(key.encode("utf-8", "backslashreplace").decode())


def _no_folder(error: OSError) -> LocationUnreadable:
    if isinstance(error, FileNotFoundError):
        return LocationUnreadable(_("The folder is not there any more."))
    if isinstance(error, NotADirectoryError):
        return LocationUnreadable(_("It is not a folder any more."))
    return LocationUnreadable(_("The folder cannot be listed: %(why)s."), why=str(error.strerror))
