"""Deletes checkpoints that this run wrote, and only if they are unchanged."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

StoreKind = Literal["json", "sqlite"]
SECONDS_TO_WAIT = 30


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
    try:
        if _mark_of_file(one.path) != one.mark:
            return False
        Path(one.path).unlink()
    except FileNotFoundError:
        return True
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
