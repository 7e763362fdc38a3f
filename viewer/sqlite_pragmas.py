"""Every PRAGMA of SQLite that Forkline uses.

``database`` is a connection or a cursor of ``sqlite3``, Django or ``apsw``.
"""

from typing import Any, Protocol


class Executes(Protocol):
    """What executes a statement, and returns its rows."""

    def execute(self, statement: str, /) -> Any: ...


# For each connection to Forkline's own database.
ON_CONNECT = (
    # A stored copy is about ten kilobytes. Large pages write a quarter as many.
    "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-4000;"
    # Deleted content, such as what a person typed for a run, is overwritten.
    " PRAGMA secure_delete=ON;"
)

# The names of a table's columns as bytes, and whether each is hidden or generated.
COLUMNS_OF_TABLE = "SELECT CAST(name AS BLOB), hidden FROM pragma_table_xinfo(?)"


def data_version(database: Executes) -> int:
    """A number that changes with each commit of another connection."""
    return int(_value(database, "data_version"))


def user_version(database: Executes) -> int:
    """The number that ``note_user`` has stored; 0 if none."""
    return int(_value(database, "user_version"))


def note_user(database: Executes, application: int, version: int) -> None:
    """Store in the head of the file which program uses it, and a number for the program's version."""
    database.execute(f"PRAGMA application_id = {application:d}")
    database.execute(f"PRAGMA user_version = {version:d}")


def first_fault(database: Executes) -> str:
    """The first fault that SQLite finds in the file; empty if there is none."""
    found = str(_value(database, "quick_check(1)"))
    return "" if found == "ok" else found


def overwrite_deleted(database: Executes) -> None:
    """Have the connection overwrite deleted content, as those to Forkline's own database do."""
    database.execute("PRAGMA secure_delete=ON")


def leave_wal_mode(database: Executes) -> None:
    """Make the database one file, without a write-ahead log."""
    database.execute("PRAGMA journal_mode=DELETE")


def empty_log(database: Executes, milliseconds: int | None = None) -> bool:
    """Write the log's pages to the database and empty the log. False while other readers prevent it.

    Waits ``milliseconds`` for the lock; without a number, as long as the connection always does.
    """
    if milliseconds is None:
        return not _value(database, "wal_checkpoint(TRUNCATE)")
    usual = int(_value(database, "busy_timeout"))
    database.execute(f"PRAGMA busy_timeout={milliseconds:d}")
    try:
        return not _value(database, "wal_checkpoint(TRUNCATE)")
    finally:
        database.execute(f"PRAGMA busy_timeout={usual}")


def restrict_reading(database: Executes) -> None:
    """Have a connection to another program's file change nothing, check each page, and map no memory."""
    for pragma in ("query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")


def open_files(database: Executes) -> None:
    """Have SQLite open its files, which it does at the first statement that reads."""
    database.execute("PRAGMA schema_version").fetchall()


def _value(database: Executes, pragma: str) -> Any:
    return database.execute(f"PRAGMA {pragma}").fetchone()[0]
