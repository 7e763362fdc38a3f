"""Forkline's own rows on a PostgreSQL server, if ``DATABASE_URL`` names one. Otherwise they are in SQLite.

Connections, errors, locks and notifications, behind the functions of ``data_folder``, which use SQLite's file
otherwise. Locations in PostgreSQL are another subject: ``viewer.stores``.
"""

import atexit
import logging
import os
import re
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    connection,
    transaction,
)
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from psycopg import Connection


# Seconds until an attempt to connect fails.
CONNECT_SECONDS = 5


# What stands for a NUL character, which PostgreSQL cannot hold in a text.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def without_nul(document: str) -> str:
    """A JSON document without NUL characters in its texts."""
    return _NUL.sub(r"\1\\ufffd", document) if "\\u0000" in document else document


def is_used() -> bool:
    """Whether the rows are on a PostgreSQL server."""
    return bool(connection.vendor == "postgresql")


def has_pooler() -> bool:
    """Whether Django connects through a pooler, which ``connected`` bypasses."""
    return bool(connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"])


def server_name() -> str:
    """The database and its server, as messages name them: without user and password."""
    values = connection.settings_dict
    host, port = values["HOST"] or "localhost", values["PORT"]
    return f"{values['NAME']} on {host}:{port}" if port else f"{values['NAME']} on {host}"


def rows_identity() -> str:
    """Return what identifies the rows: it differs on a standby that took over, and in a restored backup.

    Empty for SQLite, whose file one machine has, and for a server that does not let its users read it.
    """
    if not is_used():
        return ""
    try:
        # A failed statement would end the transaction around it.
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT system_identifier || ':' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
                " || ':' || 'viewer_job'::regclass::oid FROM pg_control_system()"
            )
            (found,) = cursor.fetchone()
    except (ProgrammingError, NotSupportedError):
        return ""
    return str(found)


def connected() -> "Connection[tuple[Any, ...]]":
    """Return a new connection in autocommit mode, past a pooler if ``DATABASE_DIRECT_URL`` is set.

    Locks and notifications belong to one session of the server, which a pooler shares between clients.
    Raises OperationalError of Django.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    with connection.wrap_database_errors:
        parameters = {"connect_timeout": str(CONNECT_SECONDS), **settings.DATABASE_DIRECT}
        return psycopg.connect(make_conninfo("", **parameters), autocommit=True)


# Errors of the PostgreSQL server that holds the rows, as one sentence that says what to do.


# https://www.postgresql.org/docs/current/errcodes-appendix.html
TOO_MANY_CONNECTIONS, DISK_FULL, READ_ONLY, NO_TABLE = "53300", "53100", "25006", "42P01"
# Its address is right, but it accepts nobody now: it starts, ends, or was ended.
RESTARTING = ("57P01", "57P02", "57P03", "08")
NOT_ADMITTED = ("28",)
NO_DATABASE, NO_PERMISSION = "3D000", "42501"
# What our own trigger raises once the rows were moved to another database.
ROWS_MOVED = "FK001"
# What a pooler says that has no connection left.
POOL_IS_FULL = re.compile(
    "no more connections allowed|query_wait_timeout|too many (clients|connections)|remaining connection"
)
# libpq reports errors of the first packets without their code.
BY_TEXT = (
    (re.compile("password authentication failed|no pg_hba.conf entry|role .* does not exist"), "28000"),
    (re.compile("database .* does not exist"), NO_DATABASE),
    (re.compile("the database system is"), "57P03"),
    (POOL_IS_FULL, TOO_MANY_CONNECTIONS),
)


def failure_text(error: BaseException) -> str:
    """Return the message for an error of the server or of the connection to it; empty for other errors."""
    from psycopg import Error

    # Procrastinate wraps the driver's errors in its own.
    if not isinstance(error, DatabaseError | InterfaceError) and not isinstance(error.__cause__, Error):
        return ""
    code = code_of(error)
    if code is None:
        return ""
    if code == READ_ONLY:
        return read_only_text()
    if code == ROWS_MOVED:
        return moved_text()
    return _sentence(code) % {"database": server_name()}


def read_only_text() -> str:
    """That the server accepts no changes."""
    text = _(
        "The PostgreSQL database is read-only: %(database)s. Check that DATABASE_URL leads to the primary"
        " server."
    )
    return text % {"database": server_name()}


def moved_text() -> str:
    """That the rows are in another database."""
    text = _("The rows of %(database)s were moved to another database. Choose that one.")
    return text % {"database": server_name()}


def code_of(error: BaseException) -> str | None:
    """Return the server's code for an error; 08000 if there is no connection, None if it has none."""
    from psycopg import OperationalError

    cause = error.__cause__
    code = getattr(cause, "sqlstate", None)
    text = str(cause or error)
    if code is None and isinstance(cause, OperationalError):
        code = next((known for pattern, known in BY_TEXT if pattern.search(text)), "08000")
    return code


def _sentence(code: str) -> str:
    sentences = {
        TOO_MANY_CONNECTIONS: _(
            "The PostgreSQL server has no connection left: %(database)s. Raise its max_connections, or put"
            " PgBouncer in front of it."
        ),
        DISK_FULL: _("The PostgreSQL server has no space left: %(database)s. Free some, then try again."),
        NO_TABLE: _("There are no tables in %(database)s yet. Start Forkline with “manage.py up”."),
        NO_PERMISSION: _(
            "The user of DATABASE_URL may not change %(database)s. Make it the owner of the database: ALTER"
            " DATABASE … OWNER TO …"
        ),
        NO_DATABASE: _("There is no PostgreSQL database %(database)s. Create it, or change DATABASE_URL."),
    }
    if code in sentences:
        return sentences[code]
    if code.startswith(NOT_ADMITTED):
        return _(
            "The PostgreSQL server refuses the user or password: %(database)s. Check DATABASE_URL and the"
            " server's pg_hba.conf."
        )
    if code.startswith(RESTARTING):
        return _(
            "The PostgreSQL server cannot be reached: %(database)s. Start it, or wait until it has"
            " restarted. Nothing is lost."
        )
    return ""


# Locks between all processes that use one PostgreSQL database: advisory locks.


_locks_logger = logging.getLogger(__name__)

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
            self._connection = connected()
            # Those that the ended connection held.
            lost = [held for held in self._held if not self._query(self._connection, held)]
            if lost:
                _locks_logger.warning("another process has taken these locks: %s", ", ".join(sorted(lost)))
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


# Tells all processes that use one PostgreSQL database when one of them has changed rows.
#
# Each process has one connection, which listens and notifies. A notification is empty, and says only that
# rows have changed: the rows are read. Each one takes a lock that all commits of the server share, so a
# process sends at most ``MAX_A_SECOND``, whatever it writes. In case one is lost, the server's transactions
# are polled.


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
                with connected() as session, connection.wrap_database_errors:
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
        # Unlike ``select``, it takes a descriptor above 1023, as a web server may have.
        poll = select.poll()
        for descriptor in (session.fileno(), self._wake):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _event in poll.poll(1000 * seconds)}
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
    with connected() as session, connection.wrap_database_errors:
        session.execute(f"LISTEN {CHANNEL}")
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
        return any(True for _one in session.notifies(timeout=SELF_TEST_SECONDS, stop_after=1))


class RowChanges:
    """Changes of rows by any process, this one included. ``descriptor`` becomes readable with each."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)
        # The first call says that something has changed.
        _write(self._written)
        listener.subscribe(self._written)

    def wait(self, seconds: float = 0) -> bool:
        """Return whether rows may have changed since the last call. Waits up to ``seconds`` for it."""
        self._poll.poll(1000 * seconds)
        return _drain(self.descriptor)

    def close(self) -> None:
        listener.unsubscribe(self._written)
        os.close(self._written)
        os.close(self.descriptor)
