"""Delete checkpoints of a location: exactly those that were listed, and only if they are unchanged.

Nothing else but a runner changes a location. A file is deleted through descriptors that follow no link,
if it is still the regular file that was listed. Rows are deleted in one transaction, if each of them still
has the contents that were read when the list was made. Nothing is renamed and no file is created, so a
process that is killed leaves checkpoints either deleted or as they were.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

from viewer.host.reading.location_reader import LocationAddress
from viewer.host_requests import KeptEntry
from viewer.messages.message import UserMessage
from viewer.sqlite_pragmas import COLUMNS_OF_TABLE
from viewer.stores.json_folder import fingerprint_of
from viewer.stores.protocol import (
    DIGESTED_COLUMNS,
    MAX_SHORT_BYTES,
    Entry,
    LocationReplaced,
    LocationUnreadable,
    row_digest,
)
from viewer.stores.safe_open import Found, found_at, identity_of, open_folder

TABLE = "checkpoints"
# Whether an entry was read from a row with this digest (``row_digest``).
IsRecorded = Callable[[Entry, str], bool]


class RowChanged(LocationUnreadable):
    """A row is not the one that was listed, so no row was deleted. ``key`` is its entry's."""

    def __init__(self, key: str) -> None:
        super().__init__("prune.row_changed", key=key)
        self.key = key


def delete_entries(
    address: LocationAddress, entries: Sequence[Entry], is_recorded: IsRecorded
) -> list[KeptEntry]:
    """Delete these checkpoints of a folder or an SQLite file. Returns those that were not deleted.

    A row is deleted only if ``is_recorded`` accepts its digest. Raises LocationUnreadable; nothing was
    deleted then.
    """
    with found_at(address.path, address.roots) as found:
        if not found.identity.is_recorded_as(address.identity):
            raise LocationReplaced("store.replaced")
        if found.is_folder:
            return list(_delete_files(found.folder, entries))
        _delete_rows(address.path, found, entries, is_recorded)
        return []


def _delete_files(root: int, entries: Sequence[Entry]) -> Iterator[KeptEntry]:
    for entry in entries:
        try:
            reason = _delete_file(root, entry)
        except OSError as error:
            reason = UserMessage("prune.failed", {"why": str(error.strerror)})
        if reason is not None:
            yield KeptEntry(entry.key, reason)


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


def _delete_rows(path: Path, found: Found, entries: Sequence[Entry], is_recorded: IsRecorded) -> None:
    """Delete rows in one transaction, all or none. Raises LocationUnreadable."""
    # A path may have bytes that are not UTF-8.
    address = f"file:{quote(os.fsencode(path))}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=5, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            # Checked after SQLite has opened the file, so that it is the file that was found.
            if not identity_of(found.folder, path.lstat()).matches(found.identity):
                raise LocationReplaced("store.replaced")
            _check_table(database)
            select = _select_row(database)
            for entry in entries:
                if not is_recorded(entry, _digest(database, select, entry)):
                    raise RowChanged(entry.key)
                _delete_row(database, entry)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        # Closing the connection has rolled the transaction back.
        raise LocationUnreadable("prune.database_failed", why=str(error)) from None
    except OSError as error:
        raise LocationUnreadable("prune.database_failed", why=str(error.strerror)) from None


def _check_table(database: sqlite3.Connection) -> None:
    """Raise LocationUnreadable for anything but a plain table without triggers."""
    rows = database.execute("SELECT type, sql FROM sqlite_master WHERE tbl_name = ?", (TABLE,)).fetchall()
    tables = [str(sql).upper() for kind, sql in rows if kind == "table"]
    has_triggers = any(kind == "trigger" for kind, _sql in rows)
    if len(tables) != 1 or has_triggers or tables[0].startswith("CREATE VIRTUAL"):
        raise LocationUnreadable("prune.not_a_plain_table")


def _select_row(database: sqlite3.Connection) -> str:
    """The statement that reads what the digest of a row is made of, as ``SqliteStore`` reads it."""
    found = database.execute(COLUMNS_OF_TABLE, (TABLE,)).fetchall()
    plain = {bytes(name).decode(errors="replace") for name, hidden in found if not hidden}
    columns = ", ".join(_short(column) if column in plain else "NULL" for column in DIGESTED_COLUMNS)
    return (
        f"SELECT typeof(data), CAST(data AS BLOB), {columns} FROM {TABLE}"  # noqa: S608
        " WHERE rowid = ? AND id = ?"
    )


def _short(column: str) -> str:
    """As ``sqlite.file.short_text``, without ``octet_length``, which older versions of SQLite lack."""
    return (
        f"CASE WHEN length(CAST({column} AS BLOB)) > {MAX_SHORT_BYTES} THEN NULL "
        f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
        f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
    )


def _digest(database: sqlite3.Connection, select: str, entry: Entry) -> str:
    """The digest of the row that was listed. Raises RowChanged if there is none."""
    row = database.execute(select, _row_of(entry)).fetchone()
    if row is None or row[1] is None:
        raise RowChanged(entry.key)
    kind, data, *columns = row
    return row_digest(kind, data, columns)


def _delete_row(database: sqlite3.Connection, entry: Entry) -> None:
    """Delete the row that was listed. Raises RowChanged if there is none."""
    deleted = database.execute(f"DELETE FROM {TABLE} WHERE rowid = ? AND id = ?", _row_of(entry))  # noqa: S608
    if deleted.rowcount != 1:
        raise RowChanged(entry.key)


def _row_of(entry: Entry) -> tuple[int, str]:
    """The rowid and the id of the row that was listed."""
    return int(entry.fingerprint.partition(":")[0]), entry.real_key
