"""Changes of rows, by the number of commits that SQLite counts."""

import sqlite3
import time
from pathlib import Path

from viewer import sqlite_pragmas

POLL_SECONDS = 0.015


class CommitChanges:
    """``Changes`` by commits of other connections to the database at ``path``."""

    def __init__(self, path: Path) -> None:
        # Its own connection: commits of the same one do not count. Autocommit, so that it never waits.
        self._database = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False)
        # The first call says that something has changed.
        self._version = -1

    def wait(self, seconds: float = 0) -> bool:
        ends = time.monotonic() + seconds
        while (version := sqlite_pragmas.data_version(self._database)) == self._version:
            left = ends - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, POLL_SECONDS))
        self._version = version
        return True

    def close(self) -> None:
        self._database.close()
