"""An SQLite file with a table of checkpoints, opened so that it and its folder stay as they are."""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import apsw

from viewer import sqlite_pragmas
from viewer.messages.message import UserMessage
from viewer.stores.errors import (
    Broken,
    LocationRefused,
    LocationUnreadable,
    Refused,
    Unavailable,
    Unreadable,
)
from viewer.stores.protocol import Entry, Limits, RawCheckpoint, ReadProblem, StoreFormat
from viewer.stores.readonly_sqlite import ChangedWhileReading, DatabaseFile, ReadonlyDatabase
from viewer.stores.snapshots import too_large
from viewer.stores.sqlite_errors import UnfinishedWrite, is_damage, location_error, row_error

TABLE = "checkpoints"
EMPTY_TABLE = "store.table_empty"
# How many rows that a damaged page hides are looked up one by one.
MAX_PROBES = 20_000
# How often a store is read again because a writer has changed it.
MAX_ATTEMPTS = 50
# An error that a writer may cause by opening or closing the store is retried this often.
MAX_PASSING_ERRORS = 5
_COLUMNS = {"id", "data"}
# Far longer than any id, date or branch.
MAX_SHORT_BYTES = 4096
MAX_ID_LENGTH = 300
_Result = TypeVar("_Result")


class SqliteStore:
    """The rows of one file, which is given as a path or an open folder and a name."""

    kind: Literal["sqlite"] = "sqlite"

    def __init__(self, file: Path | DatabaseFile, limits: Limits, formats: Sequence[StoreFormat]) -> None:
        self.formats, self.limits = formats, limits
        self._given = file
        # The file's folder, if only a path was given.
        self._folder: int | None = None
        self._database: ReadonlyDatabase
        self._columns: frozenset[str] = frozenset()
        self._rowid = "rowid"

    def __enter__(self) -> Self:
        file = self._given
        if isinstance(file, Path):
            try:
                self._folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise location_error(error, self.limits) from None
            file = DatabaseFile(self._folder, file.name)
        self._database = ReadonlyDatabase(file, self.limits)
        try:
            self._columns = self._retried(self._plain_columns)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._database.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """Each row once, by its id. Raises LocationUnreadable."""
        found = self._retried(self._listed)
        if not found:
            yield ReadProblem(TABLE, UserMessage(EMPTY_TABLE), "foreign", "empty")
        yield from found

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The row with this id; None if there is none. Raises LocationUnreadable."""
        rows = self._retried(lambda: self._query(f"{self._select_entry()} WHERE id = ?", key))
        return self._entry_or_problem(rows[0]) if rows else None

    def read(self, entry: Entry) -> RawCheckpoint:
        """The bytes of a row. Raises Unreadable."""
        if entry.size > self.limits.max_bytes:
            raise too_large(entry.size, self.limits)
        try:
            data, parent_id, branch = self._retried(lambda: self._row(entry))
        except LocationRefused as error:
            raise Refused(error.message) from None
        except LocationUnreadable as error:
            raise Unavailable(error.message) from None
        key = entry.real_key
        return RawCheckpoint(
            entry, data, lambda store_format: store_format.ids_in_row(key, parent_id, branch)
        )

    def _row(self, entry: Entry) -> tuple[bytes, str | None, str]:
        """The data of a row, its parent's id and its branch."""
        # By rowid, because the index of ids may be damaged.
        rowid = int(entry.fingerprint.partition(":")[0])
        text = "CASE WHEN typeof(data) = 'blob' AND substr(data, 1, 1) <> x'7b' THEN json(data) ELSE data END"
        columns = (
            f"CASE WHEN typeof(data) IN ('blob', 'text') THEN CAST({text} AS BLOB) END",
            *(self._short_text(column) for column in ("parent_id", "branch", "id")),
        )
        try:
            rows = self._query(
                f"SELECT {', '.join(columns)} FROM {TABLE} WHERE {self._rowid} = ?",  # noqa: S608
                rowid,
            )
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if not rows or _text(rows[0][3]) != entry.real_key:
            raise Unavailable("store.row_vanished")
        data, parent_id, branch, _id = rows[0]
        if data is None:
            raise Broken("store.row_not_json_or_text")
        return data, _text(parent_id) or None, _text(branch)

    def _plain_columns(self) -> frozenset[str]:
        """The columns that are not generated. Finds a name for the rowid, too. Raises LocationUnreadable."""
        kinds = self._query(
            "SELECT type, CAST(sql AS BLOB) FROM sqlite_schema WHERE name = ? AND type IN ('table', 'view')",
            TABLE,
        )
        if not kinds:
            raise LocationUnreadable("store.no_table")
        if kinds[0][0] != "table" or "virtual" in _text(kinds[0][1]).lower().split("(")[0]:
            raise _not_a_plain_table()
        columns = self._query(sqlite_pragmas.COLUMNS_OF_TABLE, TABLE)
        # Reading a generated column would evaluate its expression.
        plain = frozenset(_text(name) for name, hidden in columns if not hidden)
        if not plain >= _COLUMNS:
            raise LocationUnreadable("store.columns_missing")
        names = {_text(name).lower() for name, _hidden in columns}
        self._rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), "")
        if not self._rowid:
            raise _not_a_plain_table()
        return plain

    def _select_entry(self) -> str:
        key, written = self._short_text("id"), self._short_text("created_at")
        return f"SELECT {self._rowid}, {key}, octet_length(data), typeof(data), {written} FROM {TABLE}"  # noqa: S608

    def _short_text(self, column: str) -> str:
        """The SQL of a column's value, with texts as bytes; NULL if it is long or there is no such column."""
        if column not in self._columns:
            return "NULL"
        # An expression has no declared type, which may be damaged. A text may not be UTF-8.
        return (
            f"CASE WHEN octet_length({column}) > {MAX_SHORT_BYTES} THEN NULL "
            f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
            f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
        )

    def _listed(self) -> list[Entry | ReadProblem]:
        """Every row that can be listed: from both ends, if a page in between is damaged."""
        rows, is_complete = self._walk("ASC")
        if not is_complete:
            rows += self._walk("DESC")[0]
            rows += self._probed({row[0] for row in rows})
        listed = [self._entry_or_problem(row) for row in rows]
        found = {item.key: item for item in listed}
        if not is_complete:
            reason = UserMessage("store.table_partly_damaged")
            found[TABLE] = ReadProblem(TABLE, reason, "broken", hides="anything")
        return list(found.values())

    def _walk(self, direction: str) -> tuple[list[tuple[Any, ...]], bool]:
        """The rows in this direction up to a damaged page, and whether there was none."""
        rows: list[tuple[Any, ...]] = []
        try:
            for row in self._database.run(f"{self._select_entry()} ORDER BY {self._rowid} {direction}"):
                rows.append(row)
        except apsw.SQLError:
            raise
        except apsw.Error as error:
            if not is_damage(error):
                raise
            return rows, False
        return rows, True

    def _probed(self, known: set[int]) -> list[tuple[Any, ...]]:
        """The rows between those that were found, looked up one by one."""
        rows: list[tuple[Any, ...]] = []
        last = max(known, default=0)
        first = min(known, default=1)
        for rowid in range(first, min(last, first + MAX_PROBES)):
            if rowid not in known:
                try:
                    rows += self._query(f"{self._select_entry()} WHERE {self._rowid} = ?", rowid)
                except apsw.Error as error:
                    if not is_damage(error):
                        raise
        return rows

    def _entry_or_problem(self, row: tuple[Any, ...]) -> Entry | ReadProblem:
        rowid, row_id, size, kind, written = row
        written = _text(written) if isinstance(written, bytes) else written
        # Only a checksum of that column, whatever it holds.
        checksum = zlib.crc32(repr(written).encode(errors="backslashreplace"))
        fingerprint = f"{rowid}:{kind}:{size}:{checksum:08x}"
        key = _text(row_id)
        if not key or not key.isprintable() or len(key) > MAX_ID_LENGTH:
            reason = UserMessage("store.row_without_id")
            return ReadProblem(f"row {rowid}", reason, "broken", fingerprint)
        return Entry(key, fingerprint, size or 0)

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._database.run(statement, *values))

    def _retried(self, read: Callable[[], _Result]) -> _Result:
        """What ``read`` returns, read again as long as a writer changes the file meanwhile."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                if not self._database.is_open:
                    self._database.open()
                result = read()
                self._database.check_unchanged()
                return result
            except ChangedWhileReading:
                self._database.reset()
            except (apsw.Error, MemoryError, LocationUnreadable, Unreadable) as error:
                is_raw = isinstance(error, apsw.Error | MemoryError)
                raised = location_error(error, self.limits) if is_raw else error
                # A writer that opens or closes the file looks like one that was killed.
                is_passing = isinstance(raised, UnfinishedWrite) and attempt < MAX_PASSING_ERRORS
                if self._database.is_unchanged() and not is_passing:
                    raise raised from None
                self._database.reset()
        raise LocationUnreadable("store.changed_while_read")


def _not_a_plain_table() -> LocationUnreadable:
    return LocationUnreadable("store.table_not_plain", table=TABLE)


def _text(value: object) -> str:
    """A text that was read as bytes; empty for anything else."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
