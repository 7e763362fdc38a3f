"""Locks between all processes that use one PostgreSQL database: advisory locks."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, connection

from viewer import postgresql

if TYPE_CHECKING:
    from psycopg import Connection

logger = logging.getLogger(__name__)

# Between two attempts to acquire a lock that another process or thread holds.
RETRY_SECONDS = 0.02


def key_of(name: str) -> int:
    """The number by which the server knows a lock."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def lock_until_commit(name: str) -> None:
    """Wait for the lock, and hold it until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key_of(name)])


class Session:
    """The connection of this process whose locks are released when the process exits, however it exits.

    All threads share it. The server would give one session the same lock twice, so the names are noted here.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: set[str] = set()
        self._connection: Connection[tuple[Any, ...]] | None = None

    def acquire(self, name: str) -> bool:
        """Return whether the lock was acquired. Raises OperationalError without a connection."""
        with self._guard:
            if name in self._held or not self._locked(name):
                return False
            self._held.add(name)
            return True

    def release(self, name: str) -> None:
        """Release the lock. If the connection has ended, it is released already."""
        with self._guard:
            self._held.discard(name)
            if self._connection is not None:
                with suppress(DatabaseError), connection.wrap_database_errors:
                    self._connection.execute("SELECT pg_advisory_unlock(%s)", [key_of(name)])

    def _locked(self, name: str) -> bool:
        try:
            return self._try(name)
        except DatabaseError:
            # The server was restarted, or has ended the connection.
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return self._try(name)

    def _try(self, name: str) -> bool:
        if self._connection is None:
            self._connection = postgresql.connected()
            # Those that the ended connection held.
            lost = [held for held in self._held if not self._query(self._connection, held)]
            if lost:
                logger.warning("another process has taken these locks: %s", ", ".join(sorted(lost)))
        return self._query(self._connection, name)

    def _query(self, session: "Connection[tuple[Any, ...]]", name: str) -> bool:
        with connection.wrap_database_errors:
            row = session.execute("SELECT pg_try_advisory_lock(%s)", [key_of(name)]).fetchone()
        return bool(row and row[0])


_session = Session()


@contextmanager
def held(name: str, *, wait: bool) -> Iterator[bool]:
    """Hold the lock within the block. Yields False if another thread or process holds it, unless ``wait``.

    Raises OperationalError if the server cannot be reached.
    """
    is_held = _session.acquire(name)
    while wait and not is_held:
        time.sleep(RETRY_SECONDS)
        is_held = _session.acquire(name)
    try:
        yield is_held
    finally:
        if is_held:
            _session.release(name)
