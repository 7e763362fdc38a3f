"""``make matrix``: tests every kind of run on each version of CrewAI, as a table."""

import sqlite3
import sys

# CrewAI's stores hold JSONB.
if sqlite3.sqlite_version_info < (3, 45):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
