"""One recent SQLite for the whole process."""

import sqlite3
import sys

# JSONB is read from 3.45 on; 3.51.3 holds the fix for WAL resets beside other writers.
OLDEST_TRUSTED = (3, 51, 3)


def use_one_recent_sqlite() -> None:
    """Put pysqlite3 in the place of ``sqlite3`` where Python's own is too old.

    Two SQLite copies in one process drop each other's file locks, so it is all or nothing.
    """
    if sqlite3.sqlite_version_info >= OLDEST_TRUSTED:
        return
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
