"""Reads plain tables of an SQLite file without changing the file or its folder."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw

from viewer import sqlite_pragmas
from viewer.stores.errors import LocationUnreadable, Unreadable
from viewer.stores.protocol import ReadLimits
from viewer.stores.sqlite.errors import UnfinishedWrite, location_error
from viewer.stores.sqlite.readonly import ChangedWhileReading, DatabaseFile, ReadonlyDatabase

# How many times a file is read again because a writer has changed it.
MAX_ATTEMPTS = 50
# How many times a read is repeated after an error that a writer may cause by opening or closing the file.
MAX_PASSING_ERRORS = 5
# Far longer than any id, date or branch.
MAX_SHORT_BYTES = 4096
_Result = TypeVar("_Result")


class SqliteFile:
    """One file, given as a path or as an open folder and a name. Opening it calls ``read_schema``."""

    def __init__(self, file: Path | DatabaseFile, limits: ReadLimits) -> None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self.database.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def plain_columns(self, table: str) -> tuple[frozenset[str], str]:
        """The columns of a table that are not generated, and the name by which a query reads its rowid.

        Raises LocationUnreadable for anything but a plain table.
        """
        kinds = self.query(
            "SELECT type, CAST(sql AS BLOB) FROM sqlite_schema WHERE name = ? AND type IN ('table', 'view')",
            table,
        )
        if not kinds:
            raise LocationUnreadable("store.no_table")
        if kinds[0][0] != "table" or "virtual" in text_of(kinds[0][1]).lower().split("(")[0]:
            raise LocationUnreadable("store.table_not_plain", table=table)
        columns = self.query(sqlite_pragmas.COLUMNS_OF_TABLE, table)
        # Reading a generated column would evaluate its expression.
        plain = frozenset(text_of(name) for name, hidden in columns if not hidden)
        names = {text_of(name).lower() for name, _hidden in columns}
        rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), "")
        if not rowid:
            raise LocationUnreadable("store.table_not_plain", table=table)
        return plain, rowid

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement. Raises apsw.Error."""
        return list(self.database.run(statement, *values))

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
            except (apsw.Error, MemoryError, LocationUnreadable, Unreadable) as error:
                is_raw = isinstance(error, apsw.Error | MemoryError)
                raised = location_error(error, self.limits) if is_raw else error
                # While a writer opens or closes the file, the file looks as if the writer had been killed.
                is_passing = isinstance(raised, UnfinishedWrite) and attempt < MAX_PASSING_ERRORS
                if self.database.is_unchanged() and not is_passing:
                    raise raised from None
                self.database.reset()
        raise LocationUnreadable("store.changed_while_read")


def short_text(column: str, columns: frozenset[str]) -> str:
    """The SQL of a column's value, with texts as bytes; NULL if it is too long or the column is missing."""
    if column not in columns:
        return "NULL"
    # An expression has no declared type, which may be damaged. A text may not be UTF-8.
    return (
        f"CASE WHEN octet_length({column}) > {MAX_SHORT_BYTES} THEN NULL "
        f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
        f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
    )


def text_of(value: object) -> str:
    """A text that was read as bytes; empty for anything else."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
