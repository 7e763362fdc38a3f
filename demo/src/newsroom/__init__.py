"""A small newsroom of agents."""

import sqlite3
import sys

# CrewAI's SQLite checkpoints need JSONB (SQLite 3.45): without it the file stays empty.
if sqlite3.sqlite_version_info < (3, 45):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
