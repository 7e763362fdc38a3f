"""The Django project. Importing it chooses the SQLite library of this process."""

import sqlite3
import sys

# JSONB needs 3.45. 3.51.3 fixes WAL resets with concurrent writers.
OLDEST_TRUSTED = (3, 51, 3)


def use_one_recent_sqlite() -> None:
    """Replace ``sqlite3`` with pysqlite3 if Python's own SQLite is too old.

    Two SQLite libraries in one process release each other's file locks, so every import gets the same one.
    """
    if sqlite3.sqlite_version_info >= OLDEST_TRUSTED:
        return
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2


use_one_recent_sqlite()
