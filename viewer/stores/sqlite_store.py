"""Reads SQLite files: any plain tables, and a table of checkpoints as JSON."""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import apsw

from viewer import sqlite_pragmas
from viewer.messages.message import UserMessage
from viewer.stores import DatabaseFile, protocol
from viewer.stores.sqlite_file import (
    ChangedWhileReading,
    ReadonlyDatabase,
    UnfinishedWrite,
    is_damage,
    location_error,
    row_error,
)

# How many times a file is read again because a writer has changed it.
MAX_ATTEMPTS = 50
# How many times a read is repeated after an error that a writer may cause by opening or closing the file.
MAX_PASSING_ERRORS = 5
_Result = TypeVar("_Result")


class SqliteFile:
    """An SQLite file whose plain tables are read. Never changes the file or its folder.

    Given as a path, or as an open folder and a name. Opening it calls ``read_schema``.
    """

    def __init__(self, file: Path | DatabaseFile, limits: protocol.ReadLimits) -> None:
        self.limits = limits
        self._given = file
        # The file's folder, if only a path was given.
        self._folder: int | None = None
        self.database: ReadonlyDatabase

    def read_schema(self) -> None:
        """Check that the file has the expected tables. Raises LocationUnreadable."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        file = self._given
        if isinstance(file, Path):
            try:
                self._folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise location_error(error, self.limits) from None
            file = DatabaseFile(self._folder, file.name)
        self.database = ReadonlyDatabase(file, self.limits)
        try:
            self.retried(self.read_schema)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self.database.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def plain_columns(self, table: str) -> tuple[frozenset[str], str]:
        """The columns of a table that are not generated, and the name by which a query reads its rowid.

        Raises LocationUnreadable for anything but a plain table, and for a file in UTF-16.
        """
        if self.query("SELECT octet_length('a')") != [(1,)]:
            raise protocol.LocationUnreadable("store.not_utf8")
        kinds = self.query(
            "SELECT type, CAST(sql AS BLOB) FROM sqlite_schema WHERE name = ? AND type IN ('table', 'view')",
            table,
        )
        if not kinds:
            raise protocol.LocationUnreadable("store.no_table")
        if kinds[0][0] != "table" or "virtual" in text_of(kinds[0][1]).lower().split("(")[0]:
            raise protocol.LocationUnreadable("store.table_not_plain", table=table)
        columns = self.query(sqlite_pragmas.COLUMNS_OF_TABLE, table)
        # Reading a generated column would evaluate its expression.
        plain = frozenset(text_of(name) for name, hidden in columns if not hidden)
        names = {text_of(name).lower() for name, _hidden in columns}
        rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), "")
        if not rowid:
            raise protocol.LocationUnreadable("store.table_not_plain", table=table)
        return plain, rowid

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement. Raises apsw.Error."""
        return list(self.database.run(statement, *values))

    def query_undamaged(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement; none if it reads damaged pages. Raises apsw.Error."""
        try:
            return self.query(statement, *values)
        except apsw.Error as error:
            if not is_damage(error):
                raise
            return []

    def retried(self, read: Callable[[], _Result]) -> _Result:
        """What ``read`` returns; called again if a writer changes the file. Raises LocationUnreadable."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                if not self.database.is_open:
                    self.database.open()
                result = read()
                self.database.check_unchanged()
                return result
            except ChangedWhileReading:
                self.database.reset()
            except (apsw.Error, MemoryError, protocol.LocationUnreadable, protocol.Unreadable) as error:
                is_raw = isinstance(error, apsw.Error | MemoryError)
                raised = location_error(error, self.limits) if is_raw else error
                # While a writer opens or closes the file, the file looks as if the writer had been killed.
                is_passing = isinstance(raised, UnfinishedWrite) and attempt < MAX_PASSING_ERRORS
                if self.database.is_unchanged() and not is_passing:
                    raise raised from None
                self.database.reset()
        raise protocol.LocationUnreadable("store.changed_while_read")


def short_text(column: str, columns: frozenset[str]) -> str:
    """The SQL of a column's value, with texts as bytes; NULL if it is too long or the column is missing."""
    if column not in columns:
        return "NULL"
    # An expression has no declared type, which may be damaged. A text may not be UTF-8.
    return (
        f"CASE WHEN octet_length({column}) > {protocol.MAX_SHORT_BYTES} THEN NULL "
        f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
        f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
    )


def text_of(value: object) -> str:
    """A text that was read as bytes; empty for anything else."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""


TABLE = "checkpoints"
EMPTY_TABLE = "store.table_empty"
# The most rowids on damaged pages that are read one by one.
MAX_PROBES = 20_000
_COLUMNS = {"id", "data"}
MAX_ID_LENGTH = 300


class SqliteStore(SqliteFile):
    """The rows of one file. Each is a checkpoint as JSON."""

    kind: Literal["sqlite", "states"] = "sqlite"
    table = TABLE

    def __init__(
        self, file: Path | DatabaseFile, limits: protocol.ReadLimits, formats: Sequence[protocol.StoreFormat]
    ) -> None:
        super().__init__(file, limits)
        self.formats = formats
        self._columns: frozenset[str] = frozenset()
        self._rowid = "rowid"

    def entries(self) -> Iterator[protocol.Entry | protocol.ReadProblem]:
        """The entry or problem of each row. Of rows with the same id, the last. Raises LocationUnreadable."""
        found = self.retried(self._listed)
        if not found:
            yield protocol.ReadProblem(self.table, UserMessage(EMPTY_TABLE), "foreign", "empty")
        yield from found

    def entry(self, key: str) -> protocol.Entry | protocol.ReadProblem | None:
        """The row with this id; None if there is none. Raises LocationUnreadable."""
        rows = self.retried(lambda: self.query(f"{self._select_entry()} WHERE id = ?", key))
        return self._entry_or_problem(rows[0]) if rows else None

    def read(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        """The bytes of a row. Raises Unreadable."""
        if entry.size > self.limits.max_bytes:
            raise protocol.too_large(entry.size, self.limits)
        try:
            return self.retried(lambda: self._read_once(entry))
        except protocol.LocationLimitExceeded as error:
            raise protocol.LimitExceeded(error.message) from None
        except protocol.LocationUnreadable as error:
            raise protocol.Unavailable(error.message) from None

    def _read_once(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        try:
            return self._read_row(entry)
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None

    def _read_row(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        """The bytes of a row. Raises Unreadable or apsw.Error."""
        kind, stored, data, columns = self._row(entry)
        key, parent_id, branch = entry.real_key, text_of(columns[1]) or None, text_of(columns[2])
        return protocol.RawCheckpoint(
            entry,
            data,
            lambda store_format: store_format.ids_in_row(key, parent_id, branch),
            protocol.row_digest(kind, stored, columns),
        )

    def _row(self, entry: protocol.Entry) -> tuple[str, bytes, bytes, list[Any]]:
        """The type and bytes of a row's data, the same as JSON text, and the other columns of its digest."""
        # Found by rowid, because the index of ids may be damaged.
        rowid = int(entry.fingerprint.partition(":")[0])
        columns = (
            "typeof(data)",
            "CASE WHEN typeof(data) IN ('blob', 'text') THEN CAST(data AS BLOB) END",
            *(short_text(column, self._columns) for column in ("id", *protocol.DIGESTED_COLUMNS)),
        )
        rows = self.query(
            f"SELECT {', '.join(columns)} FROM {TABLE} WHERE {self._rowid} = ?",  # noqa: S608
            rowid,
        )
        if not rows or text_of(rows[0][2]) != entry.real_key:
            raise protocol.Unavailable("store.row_vanished")
        kind, stored, _id, *others = rows[0]
        if stored is None:
            raise protocol.Broken("store.row_not_json_or_text")
        return kind, stored, self._as_text(kind, stored), others

    def _as_text(self, kind: str, stored: bytes) -> bytes:
        """The data of a row as JSON text: SQLite's own binary form is converted. Raises apsw.Error."""
        if kind == "text" or stored.startswith(b"{"):
            return stored
        converted: bytes | None = self.query("SELECT CAST(json(?) AS BLOB)", stored)[0][0]
        if converted is None:
            raise protocol.Broken("store.row_not_json_or_text")
        return converted

    def read_schema(self) -> None:
        """Find the plain columns. Raises LocationUnreadable."""
        self._columns, self._rowid = self.plain_columns(TABLE)
        if not self._columns >= _COLUMNS:
            raise protocol.LocationUnreadable("store.columns_missing")

    def _select_entry(self) -> str:
        key, written = (short_text(name, self._columns) for name in ("id", "created_at"))
        return f"SELECT {self._rowid}, {key}, octet_length(data), typeof(data), {written} FROM {TABLE}"  # noqa: S608

    def _listed(self) -> list[protocol.Entry | protocol.ReadProblem]:
        """Every row that can be listed. If a page is damaged, the rows before and after it are listed."""
        rows, is_complete = self._walk("ASC")
        if not is_complete:
            rows += self._walk("DESC")[0]
            rows += self._probed({row[0] for row in rows})
        listed = [self._entry_or_problem(row) for row in rows]
        found = {item.key: item for item in listed}
        if not is_complete:
            reason = UserMessage("store.table_partly_damaged")
            found[self.table] = protocol.ReadProblem(self.table, reason, "broken", hides="anything")
        return list(found.values())

    def _walk(self, direction: str) -> tuple[list[tuple[Any, ...]], bool]:
        """The rows in this direction up to a damaged page, and whether all rows were read."""
        rows: list[tuple[Any, ...]] = []
        try:
            for row in self.database.run(f"{self._select_entry()} ORDER BY {self._rowid} {direction}"):
                rows.append(row)
        except apsw.SQLError:
            raise
        except apsw.Error as error:
            if not is_damage(error):
                raise
            return rows, False
        return rows, True

    def _probed(self, known: set[int]) -> list[tuple[Any, ...]]:
        """The rows between the known rowids, read one by one."""
        rows: list[tuple[Any, ...]] = []
        last = max(known, default=0)
        first = min(known, default=1)
        for rowid in range(first, min(last, first + MAX_PROBES)):
            if rowid not in known:
                try:
                    rows += self.query(f"{self._select_entry()} WHERE {self._rowid} = ?", rowid)
                except apsw.Error as error:
                    if not is_damage(error):
                        raise
        return rows

    def _entry_or_problem(self, row: tuple[Any, ...]) -> protocol.Entry | protocol.ReadProblem:
        rowid, row_id, size, kind, written = row
        written = text_of(written) if isinstance(written, bytes) else written
        # Only a checksum of the column is used, since it may hold anything.
        checksum = zlib.crc32(repr(written).encode(errors="backslashreplace"))
        fingerprint = f"{rowid}:{kind}:{size}:{checksum:08x}"
        key = text_of(row_id)
        if not key or not key.isprintable() or len(key) > MAX_ID_LENGTH:
            reason = UserMessage("store.row_without_id")
            return protocol.ReadProblem(f"row {rowid}", reason, "broken", fingerprint)
        return protocol.Entry(key, fingerprint, size or 0)
