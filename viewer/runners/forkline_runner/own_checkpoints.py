"""The checkpoints that this run writes: their location must not move, and only they are pruned.

An engine creates missing folders. If a location is renamed or replaced during a run, the engine would
silently create another one at the old path. Standard library only.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

StoreKind = Literal["json", "sqlite"]
SECONDS_TO_WAIT = 30


class Moved(OSError):
    """The location was renamed, replaced or removed since the run began to write to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ESTALE, "the location was renamed, replaced or removed", str(path))


class Pin:
    """A folder or file that is held open until the process exits, so that its inode number is not reused.

    It is never closed: closing a database's file would release the locks that SQLite holds on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Open what is at the path, if anything, and hold it open."""
        if self._descriptor is None:
            with suppress(FileNotFoundError):
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def check(self) -> None:
        """Raise Moved if something else, or nothing, is at the path of what is held."""
        if self._descriptor is None:
            return
        try:
            present = self.path.stat()
        except FileNotFoundError:
            raise Moved(self.path) from None
        held = os.fstat(self._descriptor)
        if (present.st_dev, present.st_ino) != (held.st_dev, held.st_ino):
            raise Moved(self.path)


class Pins:
    """The locations that one run writes to: its own, and those of the runs inside it."""

    def __init__(self) -> None:
        self._pins: dict[str, list[Pin]] = {}

    def hold(self, location: str, is_folder: bool) -> None:
        """Hold a location, and for a file also its folder. What is missing is held at the next call."""
        if location not in self._pins:
            path = Path(location).absolute()
            self._pins[location] = [Pin(path)] if is_folder else [Pin(path.parent), Pin(path)]
        for pin in self._pins[location]:
            pin.hold()

    def check(self, location: str) -> None:
        """Raise Moved if the location is no longer the one that is held."""
        for pin in self._pins.get(location, []):
            pin.check()


class Written(NamedTuple):
    """A checkpoint that this run wrote.

    ``path`` is a file's path or ``store.db#id``. ``mark`` changes if the file or row is replaced.
    """

    path: str
    mark: str


def written(path: str, store_kind: StoreKind) -> Written:
    """Return the checkpoint at this path, with its mark. Raises OSError, sqlite3.Error."""
    return Written(path, _mark_in_store(path) if store_kind == "sqlite" else _mark_of_file(path))


def delete(one: Written, store_kind: StoreKind) -> bool:
    """Delete a checkpoint. Return False, and keep it, if it was replaced or changed.

    A missing checkpoint counts as deleted. Raises OSError, sqlite3.Error.
    """
    if store_kind == "sqlite":
        return _delete_row(one)
    with suppress(FileNotFoundError):
        if _mark_of_file(one.path) != one.mark:
            return False
        Path(one.path).unlink()
    return True


def _mark_of_file(path: str) -> str:
    # The status of the entry itself, not of what a link points to.
    found = os.lstat(path)
    kind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return f"{kind} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _delete_row(one: Written) -> bool:
    store, _, identifier = one.path.rpartition("#")
    if not Path(store).exists():
        return True
    with closing(_opened(store)) as connection:
        # No other process changes the row between the check and the deletion.
        connection.execute("BEGIN IMMEDIATE")
        mark = _mark_of_row(connection, identifier)
        if mark not in ("", one.mark):
            connection.execute("ROLLBACK")
            return False
        connection.execute("DELETE FROM checkpoints WHERE id = ?", (identifier,))
        connection.execute("COMMIT")
    return True


def _mark_in_store(path: str) -> str:
    store, _, identifier = path.rpartition("#")
    with closing(_opened(store)) as connection:
        return _mark_of_row(connection, identifier)


def _mark_of_row(connection: sqlite3.Connection, identifier: str) -> str:
    """Return the row's mark, or an empty string if there is no row."""
    query = "SELECT rowid, created_at, CAST(data AS BLOB) FROM checkpoints WHERE id = ?"
    rows: list[Any] = connection.execute(query, (identifier,)).fetchall()
    return " ".join(f"{number} {at} {sha256(data or b'').hexdigest()}" for number, at, data in rows)


def _opened(store: str) -> sqlite3.Connection:
    """Return a connection that does not create a missing store."""
    uri = f"file:{quote(os.fsencode(store))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None)
