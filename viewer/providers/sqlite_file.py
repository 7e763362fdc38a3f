"""An SQLite file with a table ``checkpoints``, opened so that it and its folder stay as they are."""

import sqlite3
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from viewer.providers.crewai_format import id_and_parent
from viewer.providers.reading import Outside, snapshot_of, too_large
from viewer.providers.snapshot import (
    Broken,
    Entry,
    Fault,
    Limits,
    LocationUnreadable,
    Snapshot,
    StillWritten,
    Unreadable,
)
from viewer.providers.untouched_sqlite import Changed, UntouchedDatabase
from viewer.words import Words
from viewer.words import gettext_noop as _

TABLE = "checkpoints"
NO_ROWS = _(
    "The table of checkpoints is empty. CrewAI leaves it so where its Python has an SQLite older than 3.45, "
    "which cannot store them: it only logs the failure."
)
# Rows that a damaged page hides are looked for one by one, this many at most.
MOST_PROBES = 20_000
# Beside busy writers it is read again so many times.
MOST_ATTEMPTS = 50
_COLUMNS = {"id", "data"}


class HalfDone(LocationUnreadable):
    """A writer ended, or is, in the middle of its work, and only a writer may put that right."""

    def __init__(self) -> None:
        super().__init__(_("A writer left it half done: open it once with the program that wrote it."))


class SqliteFile:
    """The rows of one store."""

    kind: Literal["sqlite"] = "sqlite"

    def __init__(self, path: Path, limits: Limits) -> None:
        self._limits = limits
        self._database = UntouchedDatabase(path, limits.most_seconds)
        self._columns: frozenset[str] = frozenset()
        self._rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._database.open()
        try:
            self._columns = self._retried(self._known_columns)
        except BaseException:
            self._database.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def entries(self) -> Iterator[Entry | Fault]:
        """Each row once, by its id. Raises LocationUnreadable."""
        found = self._retried(self._listed)
        if not found:
            yield Fault(TABLE, Words(NO_ROWS), "foreign", "empty")
        yield from found

    def entry(self, key: str) -> Entry | Fault | None:
        """The row with this id; None where there is none."""
        rows = self._retried(lambda: self._query(f"{self._select_entry()} WHERE id = ?", key))
        return self._judged(rows[0]) if rows else None

    def read(self, entry: Entry) -> Snapshot:
        """The checkpoint. Raises Unreadable."""
        started = time.monotonic()
        if entry.size > self._limits.most_bytes:
            raise too_large(entry.size, self._limits)
        try:
            data, parent_id, branch = self._retried(lambda: self._row(entry.key))
        except LocationUnreadable as error:
            raise StillWritten(error.words.text, **error.words.values) from None
        checkpoint_id, _parent_id = id_and_parent(entry.key)
        return snapshot_of(data, entry, Outside(checkpoint_id, parent_id, branch), self._limits, started)

    def _row(self, key: str) -> tuple[bytes, str | None, str]:
        parent, branch = self._selected("parent_id"), self._selected("branch")
        where, value = ("rowid", self._rows[key]) if key in self._rows else ("id", key)
        data = "CASE WHEN typeof(data) = 'blob' AND substr(data, 1, 1) <> x'7b' THEN json(data) ELSE data END"
        try:
            rows = self._query(f"SELECT {data}, {parent}, {branch} FROM {TABLE} WHERE {where} = ?", value)  # noqa: S608
        except sqlite3.Error as error:
            # A writer may be at it; where the row stays so, it will be called broken.
            raise _no_row(error) from None
        if not rows:
            raise StillWritten(_("The row vanished while it was being read."))
        text, parent_id, branch_name = rows[0]
        if not isinstance(text, str | bytes):
            raise Broken(_("Its data are neither JSON nor text."))
        return (
            text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text,
            parent_id if isinstance(parent_id, str) and parent_id else None,
            branch_name if isinstance(branch_name, str) else "",
        )

    def _known_columns(self) -> frozenset[str]:
        try:
            kinds = self._query("SELECT type, sql FROM sqlite_schema WHERE name = ?", TABLE)
            if not kinds:
                raise LocationUnreadable(_("It is an SQLite file without a table of checkpoints."))
            if kinds[0][0] != "table" or "virtual" in str(kinds[0][1]).lower().split("(")[0]:
                raise LocationUnreadable(
                    _("What is called “checkpoints” in it is not a plain table, so it is not read.")
                )
            columns = frozenset(row[1] for row in self._query(f"PRAGMA table_info({TABLE})"))
        except sqlite3.Error as error:
            raise _file_error(error) from None
        if not columns >= _COLUMNS:
            raise LocationUnreadable(_("Its table of checkpoints has no columns “id” and “data”."))
        return columns

    def _select_entry(self) -> str:
        written, key = self._selected("created_at"), self._selected("id")
        return f"SELECT +rowid, {key}, octet_length(data), typeof(data), {written} FROM {TABLE}"  # noqa: S608

    def _selected(self, column: str) -> str:
        """A column's value, or nothing where it has no such column."""
        # An expression has no declared type: Python fails on one that is no UTF-8.
        return f"+{column}" if column in self._columns else "NULL"

    def _listed(self) -> list[Entry | Fault]:
        """Every row that can be listed: from both ends, where a page in between is damaged."""
        rows, whole = self._walk("ASC")
        if not whole:
            rows += self._walk("DESC")[0]
            rows += self._probed({row[0] for row in rows})
        found: dict[str, Entry | Fault] = {}
        for row in rows:
            judged = self._judged(row)
            found[judged.key] = judged
        if not whole:
            reason = Words(_("A part of the table is damaged: rows may be missing."))
            found[TABLE] = Fault(TABLE, reason, "broken", hides_others=True)
        return list(found.values())

    def _walk(self, direction: str) -> tuple[list[tuple[Any, ...]], bool]:
        rows: list[tuple[Any, ...]] = []
        try:
            for row in self._database.run(f"{self._select_entry()} ORDER BY rowid {direction}"):
                rows.append(row)
        except sqlite3.OperationalError as error:
            raise _file_error(error) from None
        except sqlite3.DatabaseError:
            return rows, False
        return rows, True

    def _probed(self, known: set[int]) -> list[tuple[Any, ...]]:
        """The rows between those that were found, one by one."""
        rows: list[tuple[Any, ...]] = []
        last = max(known, default=0)
        first = min(known, default=1)
        for rowid in range(first, min(last, first + MOST_PROBES)):
            if rowid not in known:
                try:
                    rows += self._query(f"{self._select_entry()} WHERE rowid = ?", rowid)
                except sqlite3.DatabaseError:
                    continue
        return rows

    def _judged(self, row: tuple[Any, ...]) -> Entry | Fault:
        rowid, key, size, kind, written = row
        # Whatever stands in that column, none of it is kept.
        mark = f"{rowid}:{kind}:{size}:{zlib.crc32(repr(written).encode()):08x}"
        if not isinstance(key, str) or not key or not key.isprintable() or len(key) > 300:
            return Fault(f"row {rowid}", Words(_("The row has no id that could be shown.")), "broken", mark)
        self._rows[key] = rowid
        return Entry(key, mark, size or 0)

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._database.run(statement, *values))

    def _retried(self, read: Any) -> Any:
        """What ``read`` returns, read again where a writer was at work meanwhile."""
        for attempt in range(MOST_ATTEMPTS):
            try:
                result = read()
                self._database.check_unchanged()
                return result
            except Changed:
                self._database.reopen()
            except (LocationUnreadable, Unreadable) as error:
                # A writer that comes or goes just now looks like one that was killed.
                is_passing = isinstance(error, HalfDone) and attempt < 5
                if self._database.is_unchanged() and not is_passing:
                    raise
                self._database.reopen()
        raise LocationUnreadable(_("A writer changed it each time it was read. Try again."))


def _file_error(error: sqlite3.Error) -> LocationUnreadable:
    text = str(error)
    if "locked" in text or "busy" in text:
        return LocationUnreadable(_("Another program holds the file locked. Try again."))
    if "interrupted" in text:
        return LocationUnreadable(_("Reading it took too long."))
    if "not a database" in text:
        return LocationUnreadable(_("It is no SQLite file, or it is encrypted."))
    if "readonly" in text or "unable to open" in text:
        return HalfDone()
    return LocationUnreadable(_("The file is damaged: its table cannot be read."))


def _no_row(error: sqlite3.Error) -> StillWritten:
    text = str(error)
    if "malformed JSON" in text or "JSON" in text:
        return StillWritten(_("The row's data are no JSON that SQLite can read."))
    if "interrupted" in text:
        return StillWritten(_("Reading the row took too long."))
    if "too big" in text:
        return StillWritten(_("The row is larger than SQLite hands out."))
    return StillWritten(_("The row stands on a damaged page."))
