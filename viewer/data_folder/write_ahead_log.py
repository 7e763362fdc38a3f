"""Removes overwritten data from the database's write-ahead log, which otherwise keeps old pages."""

import logging
import time
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError

from viewer import postgresql, sqlite_pragmas

logger = logging.getLogger(__name__)

ATTEMPTS = 20
SECONDS_BETWEEN = 0.1
# Others wait for the lock meanwhile.
LOCK_MILLISECONDS = 100


def clear_log(attempts: int = ATTEMPTS) -> bool:
    """Write the log's pages to the database, and empty the log. False while other readers prevent it.

    Then the worker tries again. Does nothing inside a transaction, or on a server, which clears its own.
    """
    if postgresql.is_used():
        return True
    if connection.in_atomic_block:
        return False
    pending = _pending()
    try:
        pending.touch(mode=0o600)
        for attempt in range(attempts):
            if attempt:
                time.sleep(SECONDS_BETWEEN)
            with connection.cursor() as cursor:
                is_emptied = sqlite_pragmas.empty_log(cursor, LOCK_MILLISECONDS)
            if is_emptied:
                pending.unlink(missing_ok=True)
                return True
    except (DatabaseError, OSError):
        logger.warning("the database's log could not be emptied", exc_info=True)
    return False


def clear_if_pending() -> None:
    """Retry a removal that failed before, in any process."""
    if _pending().exists():
        clear_log()


def _pending() -> Path:
    return Path(settings.DATA_DIR) / "log-not-emptied"
