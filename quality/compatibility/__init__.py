"""``make matrix-crewai``: tests every kind of run on each version of CrewAI, as a table."""

import sqlite3
import sys
from pathlib import Path

# CrewAI's stores hold JSONB.
if sqlite3.sqlite_version_info < (3, 45):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

# The model that the runs call.
sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))
