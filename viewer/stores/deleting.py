"""Delete checkpoints of a location: exactly those that were listed, and only if they are unchanged.

This is the only module that changes a location. A file is deleted through descriptors that follow no link,
if it is still the regular file that was listed. Rows are deleted in one transaction, if each of them still
has the rowid, id, type and size that were listed. Nothing is renamed and no file is created, so a process
that is killed leaves checkpoints either deleted or as they were.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from viewer.messages.message import UserMessage
from viewer.stores.errors import LocationReplaced, LocationUnreadable
from viewer.stores.json_folder import fingerprint_of
from viewer.stores.location_reader import LocationAddress
from viewer.stores.protocol import Entry
from viewer.stores.safe_open import Found, found_at, identity_of, open_folder

TABLE = "checkpoints"


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that was not deleted, and why."""

    key: str
    reason: UserMessage


def delete_entries(address: LocationAddress, entries: Sequence[Entry]) -> list[Kept]:
    """Delete these checkpoints of a folder or an SQLite file. Returns those that were not deleted.

    Raises LocationUnreadable; nothing was deleted then.
    """
    with found_at(address.path, address.roots) as found:
        if address.identity is None or not address.identity.matches(found.identity):
            raise LocationReplaced("store.replaced")
        if found.is_folder:
            return list(_delete_files(found.folder, entries))
        _delete_rows(address.path, found, entries)
        return []


def _delete_files(root: int, entries: Sequence[Entry]) -> Iterator[Kept]:
    for entry in entries:
        try:
            reason = _delete_file(root, entry)
        except OSError as error:
            reason = UserMessage("prune.failed", {"why": str(error.strerror)})
        if reason is not None:
            yield Kept(entry.key, reason)


def _delete_file(root: int, entry: Entry) -> UserMessage | None:
    """Delete one file. Returns None, or why it was not deleted.

    Raises OSError, also if the path contains a link.
    """
    *folders, name = entry.real_key.split("/")
    if not name.endswith(".json") or any(part in ("", ".", "..") for part in (*folders, name)):
        return UserMessage("prune.not_a_checkpoint")
    with ExitStack() as opened:
        folder = root
        for part in folders:
            folder = open_folder(part, folder)
            opened.callback(os.close, folder)
        # The fingerprint holds the inode and the time of the last change of either content or name.
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or fingerprint_of(status) != entry.fingerprint:
            return UserMessage("prune.changed")
        os.unlink(name, dir_fd=folder)
    return None


def _delete_rows(path: Path, found: Found, entries: Sequence[Entry]) -> None:
    """Delete rows in one transaction, all or none. Raises LocationUnreadable."""
    address = f"file:{quote(str(path))}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=5, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            # Checked after SQLite has opened the file, so that it is the file that was found.
            _check_is_same(path, found)
            _check_table(database)
            for entry in entries:
                _delete_row(database, entry)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        # Closing the connection has rolled the transaction back.
        raise LocationUnreadable("prune.database_failed", why=str(error)) from None
    except OSError as error:
        raise LocationUnreadable("prune.database_failed", why=str(error.strerror)) from None


def _check_is_same(path: Path, found: Found) -> None:
    """Raise LocationReplaced if another file is at the path now."""
    status = path.lstat()
    if not identity_of(found.folder, status).matches(found.identity):
        raise LocationReplaced("store.replaced")


def _check_table(database: sqlite3.Connection) -> None:
    """Raise LocationUnreadable for anything but a plain table without triggers."""
    rows = database.execute("SELECT type, sql FROM sqlite_master WHERE tbl_name = ?", (TABLE,)).fetchall()
    tables = [str(sql).upper() for kind, sql in rows if kind == "table"]
    has_triggers = any(kind == "trigger" for kind, _sql in rows)
    if len(tables) != 1 or has_triggers or tables[0].startswith("CREATE VIRTUAL"):
        raise LocationUnreadable("prune.not_a_plain_table")


def _delete_row(database: sqlite3.Connection, entry: Entry) -> None:
    """Delete the row that was listed with this fingerprint. Raises LocationUnreadable if it has changed."""
    rowid, kind, size, _checksum = entry.fingerprint.split(":")
    deleted = database.execute(
        f"DELETE FROM {TABLE} WHERE rowid = ? AND id = ?"  # noqa: S608
        " AND typeof(data) = ? AND length(CAST(data AS BLOB)) = ?",
        (int(rowid), entry.real_key, kind, int(size)),
    )
    if deleted.rowcount != 1:
        raise LocationUnreadable("prune.row_changed", key=entry.key)
