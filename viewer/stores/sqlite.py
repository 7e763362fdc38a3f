"""An SQLite file with a table ``checkpoints``, opened so that it and its folder stay as they are."""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import apsw

from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.redaction.known_secrets import NONE_KNOWN
from viewer.stores.parsing import snapshot_of, too_large
from viewer.stores.protocol import (
    TABLE,
    Broken,
    Entry,
    Limits,
    LocationRefused,
    LocationUnreadable,
    ReadProblem,
    Refused,
    Snapshot,
    StoreFormat,
    Unavailable,
    Unreadable,
)
from viewer.stores.readonly_sqlite import Changed, DatabaseFile, ReadonlyDatabase
from viewer.stores.sqlite_errors import HalfDone, is_damage, location_error, row_error

NO_ROWS = _(
    "The table of checkpoints is empty. CrewAI leaves it so where its Python has an SQLite older than 3.45, "
    "which cannot store them: it only logs the failure."
)
# Rows that a damaged page hides are looked for one by one, this many at most.
MAX_PROBES = 20_000
# Beside busy writers it is read again so many times.
MAX_ATTEMPTS = 50
_COLUMNS = {"id", "data"}
# What an id, a date or a branch may have: far more than any has.
MAX_SHORT_BYTES = 4096


class SqliteStore:
    """The rows of one store."""

    kind: Literal["sqlite"] = "sqlite"

    def __init__(
        self, store: Path | DatabaseFile, limits: Limits, formats: Sequence[StoreFormat] = ()
    ) -> None:
        self.limits = limits
        self._formats = formats
        self.known = NONE_KNOWN
        self._given = store
        # The store's folder, where only its path was given.
        self._folder: int | None = None
        self._database: ReadonlyDatabase
        self._columns: frozenset[str] = frozenset()
        self._rowid = "rowid"

    def __enter__(self) -> Self:
        store = self._given
        if isinstance(store, Path):
            try:
                self._folder = os.open(store.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise location_error(error, self.limits) from None
            store = DatabaseFile(self._folder, store.name)
        self._database = ReadonlyDatabase(store, self.limits)
        try:
            self._columns = self._retried(self._known_columns)
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
            yield ReadProblem(TABLE, Words(NO_ROWS), "foreign", "empty")
        yield from found

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The row with this id; None where there is none."""
        rows = self._retried(lambda: self._query(f"{self._select_entry()} WHERE id = ?", key))
        return self._judged(rows[0]) if rows else None

    def read(self, entry: Entry) -> Snapshot:
        """The checkpoint. Raises Unreadable."""
        started = time.process_time()
        if entry.size > self.limits.max_bytes:
            raise too_large(entry.size, self.limits)
        try:
            data, parent_id, branch = self._retried(lambda: self._row(entry))
        except LocationRefused as error:
            raise Refused(error.words.text, **error.words.values) from None
        except LocationUnreadable as error:
            raise Unavailable(error.words.text, **error.words.values) from None
        return snapshot_of(
            data,
            entry,
            self._formats,
            lambda one: one.outside_of_row(entry.place, parent_id, branch),
            self.limits,
            started,
            self.known,
        )

    def _row(self, entry: Entry) -> tuple[bytes, str | None, str]:
        parent, branch = self._short_text("parent_id"), self._short_text("branch")
        # By its row, as the index of ids may be damaged.
        rowid = int(entry.fingerprint.partition(":")[0])
        text = "CASE WHEN typeof(data) = 'blob' AND substr(data, 1, 1) <> x'7b' THEN json(data) ELSE data END"
        text = f"CASE WHEN typeof(data) IN ('blob', 'text') THEN CAST({text} AS BLOB) END"
        try:
            rows = self._query(
                f"SELECT {text}, {parent}, {branch}, {self._short_text('id')} FROM {TABLE} WHERE {self._rowid} = ?",  # noqa: S608, E501
                rowid,
            )
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if not rows or _text(rows[0][3]) != entry.place:
            raise Unavailable(_("The row vanished while it was being read."))
        data, parent_id, branch_name, _id = rows[0]
        if data is None:
            raise Broken(_("Its data are neither JSON nor text."))
        return data, _text(parent_id) or None, _text(branch_name)

    def _known_columns(self) -> frozenset[str]:
        kinds = self._query(
            "SELECT type, CAST(sql AS BLOB) FROM sqlite_schema WHERE name = ? AND type IN ('table', 'view')",
            TABLE,
        )
        if not kinds:
            raise LocationUnreadable(_("It is an SQLite file without a table of checkpoints."))
        if kinds[0][0] != "table" or "virtual" in _text(kinds[0][1]).lower().split("(")[0]:
            raise LocationUnreadable(
                _("What is called “checkpoints” in it is not a plain table, so it is not read.")
            )
        columns = self._query("SELECT CAST(name AS BLOB), hidden FROM pragma_table_xinfo(?)", TABLE)
        # A generated column is computed as it is read, to whatever it says.
        plain = frozenset(_text(name) for name, hidden in columns if not hidden)
        if not plain >= _COLUMNS:
            raise LocationUnreadable(_("Its table of checkpoints has no columns “id” and “data”."))
        every = {_text(name).lower() for name, _hidden in columns}
        self._rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in every), "rowid")
        if "rowid" in every and self._rowid == "rowid":
            raise LocationUnreadable(
                _("What is called “checkpoints” in it is not a plain table, so it is not read.")
            )
        return plain

    def _select_entry(self) -> str:
        key, written = self._short_text("id"), self._short_text("created_at")
        return f"SELECT {self._rowid}, {key}, octet_length(data), typeof(data), {written} FROM {TABLE}"  # noqa: S608

    def _short_text(self, column: str) -> str:
        """A column's value, its texts as bytes, and nothing of one that is long or not there."""
        if column not in self._columns:
            return "NULL"
        # An expression has no declared type, which may be damaged. Texts may be no UTF-8.
        return (
            f"CASE WHEN octet_length({column}) > {MAX_SHORT_BYTES} THEN NULL "
            f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
            f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
        )

    def _listed(self) -> list[Entry | ReadProblem]:
        """Every row that can be listed: from both ends, where a page in between is damaged."""
        rows, whole = self._walk("ASC")
        if not whole:
            rows += self._walk("DESC")[0]
            rows += self._probed({row[0] for row in rows})
        found: dict[str, Entry | ReadProblem] = {}
        for row in rows:
            judged = self._judged(row)
            found[judged.key] = judged
        if not whole:
            reason = Words(_("A part of the table is damaged: rows may be missing."))
            found[TABLE] = ReadProblem(TABLE, reason, "broken", hides_others=True)
        return list(found.values())

    def _walk(self, direction: str) -> tuple[list[tuple[Any, ...]], bool]:
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
        """The rows between those that were found, one by one."""
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

    def _judged(self, row: tuple[Any, ...]) -> Entry | ReadProblem:
        rowid, key, size, kind, written = row
        written = _text(written) if isinstance(written, bytes) else written
        # Whatever stands in that column, none of it is kept.
        mark = f"{rowid}:{kind}:{size}:{zlib.crc32(repr(written).encode(errors='backslashreplace')):08x}"
        name = _text(key)
        if not name or not name.isprintable() or len(name) > 300:
            return ReadProblem(
                f"row {rowid}", Words(_("The row has no id that could be shown.")), "broken", mark
            )
        return Entry(name, mark, size or 0)

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._database.run(statement, *values))

    def _retried(self, read: Any) -> Any:
        """What ``read`` returns, read again where a writer was at work meanwhile."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                if not self._database.is_open:
                    self._database.open()
                result = read()
                self._database.check_unchanged()
                return result
            except Changed:
                self._database.reset()
            except (apsw.Error, MemoryError, LocationUnreadable, Unreadable) as error:
                told = error
                if isinstance(error, apsw.Error | MemoryError):
                    told = location_error(error, self.limits)
                # A writer that comes or goes just now looks like one that was killed.
                is_passing = isinstance(told, HalfDone) and attempt < 5
                if self._database.is_unchanged() and not is_passing:
                    raise told from None
                self._database.reset()
        raise LocationUnreadable(_("A writer changed it each time it was read. Try again."))


def _text(value: object) -> str:
    """A text that was read as bytes; empty for anything else."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
