"""Tells all processes that use one PostgreSQL database when one of them has changed rows.

Each process has one connection, which listens and notifies. A notification is empty, and says only that rows
have changed: the rows are read. Each one takes a lock that all commits of the server share, so a process
sends at most ``MAX_A_SECOND``, whatever it writes. In case one is lost, the server's transactions are polled.
"""

import atexit
import logging
import os
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, connection

from viewer import postgresql

if TYPE_CHECKING:
    from psycopg import Connection

logger = logging.getLogger("forkline.notifications")

CHANNEL = "forkline_rows"
MAX_A_SECOND = 20
# How often transactions are polled, and how often if notifications do not arrive.
POLL_SECONDS, POLL_ALONE_SECONDS = 5.0, 0.25
# How long the first notification, which a process sends to itself, may take.
SELF_TEST_SECONDS = 2.0
RECONNECT_SECONDS = 1.0
# How long a process that ends waits for its last notification.
EXIT_SECONDS = 1.0


class Listener:
    """The thread of this process that listens and notifies. It starts with the first use, in any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._subscribers: set[int] = set()
        self._wake, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._has_written = threading.Event()
        self._sent_at = float("-inf")
        self._arrives = True
        self._snapshot = ""

    def subscribe(self, descriptor: int) -> None:
        """Write a byte to this descriptor whenever rows may have changed."""
        with self._guard:
            self._subscribers.add(descriptor)
        self._start()

    def unsubscribe(self, descriptor: int) -> None:
        with self._guard:
            self._subscribers.discard(descriptor)

    def announce(self) -> None:
        """Notify all processes soon that this one has changed rows."""
        if not self._has_written.is_set():
            self._has_written.set()
            _write(self._wakes)
            self._start()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
                self._thread.start()
                atexit.register(self._finish)

    def _finish(self) -> None:
        ends = time.monotonic() + EXIT_SECONDS
        while self._has_written.is_set() and time.monotonic() < ends:
            time.sleep(0.005)

    def _run(self) -> None:
        while True:
            try:
                with postgresql.connected() as session, connection.wrap_database_errors:
                    self._begin(session)
                    while True:
                        self._step(session)
            except (DatabaseError, OSError) as error:
                logger.debug("reconnecting: %s", error)
            # What was missed meanwhile.
            self._tell()
            time.sleep(RECONNECT_SECONDS)

    def _begin(self, session: "Connection[tuple[Any, ...]]") -> None:
        """Listen, and test whether a notification arrives: a pooler may give it to another client."""
        session.execute(f"LISTEN {CHANNEL}")
        session.execute(f"NOTIFY {CHANNEL}")
        arrives = any(True for _one in session.notifies(timeout=SELF_TEST_SECONDS, stop_after=1))
        if self._arrives and not arrives:
            logger.warning(
                "PostgreSQL's notifications do not arrive, so it is polled. Behind a pooler, set"
                " DATABASE_DIRECT_URL to the address of the server itself."
            )
        self._arrives = arrives
        self._tell()

    def _step(self, session: "Connection[tuple[Any, ...]]") -> None:
        """Wait for a notification, for something to announce, or until the next poll."""
        seconds = POLL_SECONDS if self._arrives else POLL_ALONE_SECONDS
        ready, _writable, _failed = select.select([session.fileno(), self._wake], [], [], seconds)
        if self._wake in ready:
            _drain(self._wake)
            time.sleep(max(0.0, self._sent_at + 1 / MAX_A_SECOND - time.monotonic()))
            # Cleared first: what is written from now on is announced by the next one.
            self._has_written.clear()
            session.execute(f"NOTIFY {CHANNEL}")
            self._sent_at = time.monotonic()
        has_news = bool(list(session.notifies(timeout=0)))
        if not ready:
            has_news |= self._has_new_snapshot(session)
        if has_news:
            self._tell()

    def _has_new_snapshot(self, session: "Connection[tuple[Any, ...]]") -> bool:
        """Whether any transaction of the server has ended since the last poll."""
        row = session.execute("SELECT pg_current_snapshot()::text").fetchone()
        former, self._snapshot = self._snapshot, str(row and row[0])
        return former != self._snapshot

    def _tell(self) -> None:
        with self._guard:
            for descriptor in self._subscribers:
                _write(descriptor)


def _write(descriptor: int) -> None:
    # A full pipe says enough.
    with suppress(BlockingIOError):
        os.write(descriptor, b"1")


def _drain(descriptor: int) -> bool:
    """Read everything. Return whether there was something."""
    try:
        return bool(os.read(descriptor, 65536))
    except BlockingIOError:
        return False


listener = Listener()


def notifications_arrive() -> bool:
    """Whether a notification that a connection of Django sends arrives at one that listens.

    A pooler may give it to another client. Raises DatabaseError.
    """
    with postgresql.connected() as session, connection.wrap_database_errors:
        session.execute(f"LISTEN {CHANNEL}")
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
        return any(True for _one in session.notifies(timeout=SELF_TEST_SECONDS, stop_after=1))


class RowChanges:
    """Changes of rows by any process, this one included. ``descriptor`` becomes readable with each."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # The first call says that something has changed.
        _write(self._written)
        listener.subscribe(self._written)

    def wait(self, seconds: float = 0) -> bool:
        """Return whether rows may have changed since the last call. Waits up to ``seconds`` for it."""
        select.select([self.descriptor], [], [], seconds)
        return _drain(self.descriptor)

    def close(self) -> None:
        listener.unsubscribe(self._written)
        os.close(self._written)
        os.close(self.descriptor)
