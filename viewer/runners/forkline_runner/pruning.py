"""Deletes checkpoints that this very run wrote, and only where they are still what it wrote. No engine."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

Provider = Literal["json", "sqlite"]
SECONDS_TO_WAIT = 30


class Written(NamedTuple):
    """A checkpoint of this run: a file's path or ``store.db#id``, and a mark of what was written there."""

    place: str
    mark: str


def written(place: str, provider: Provider) -> Written:
    """What stands at this place, to be known again. Raises OSError, sqlite3.Error."""
    return Written(place, _mark_in_store(place) if provider == "sqlite" else _mark_of_file(place))


def delete(one: Written, provider: Provider) -> bool:
    """Delete it. False where something else stands there by now: that stays. Raises OSError, sqlite3.Error.

    What is gone already is no reason to complain.
    """
    if provider == "sqlite":
        return _delete_row(one)
    try:
        if _mark_of_file(one.place) != one.mark:
            return False
        Path(one.place).unlink()
    except FileNotFoundError:
        return True
    return True


def _mark_of_file(place: str) -> str:
    # Its own, not that of what a link there leads to.
    found = os.lstat(place)
    kind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return f"{kind} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _delete_row(one: Written) -> bool:
    store, _, identifier = one.place.rpartition("#")
    if not Path(store).exists():
        return True
    with closing(_opened(store)) as connection:
        # Nobody else's row comes between looking and deleting.
        connection.execute("BEGIN IMMEDIATE")
        mark = _mark_of_row(connection, identifier)
        if mark not in ("", one.mark):
            connection.execute("ROLLBACK")
            return False
        connection.execute("DELETE FROM checkpoints WHERE id = ?", (identifier,))
        connection.execute("COMMIT")
    return True


def _mark_in_store(place: str) -> str:
    store, _, identifier = place.rpartition("#")
    with closing(_opened(store)) as connection:
        return _mark_of_row(connection, identifier)


def _mark_of_row(connection: sqlite3.Connection, identifier: str) -> str:
    """Empty where there is no such row."""
    asked = "SELECT rowid, created_at, CAST(data AS BLOB) FROM checkpoints WHERE id = ?"
    rows: list[Any] = connection.execute(asked, (identifier,)).fetchall()
    return " ".join(f"{number} {at} {sha256(data or b'').hexdigest()}" for number, at, data in rows)


def _opened(store: str) -> sqlite3.Connection:
    """A connection that makes no store where there is none any more."""
    address = f"file:{quote(store)}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None)
