"""Reads tables of a PostgreSQL database in read-only transactions with a time limit."""

import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Self, TypeVar

import psycopg
from psycopg import IsolationLevel, sql

from viewer.redaction.known_secrets import known_secrets, redact_text
from viewer.stores import ServerAddress, protocol

# Turns errors of libpq and of a server into messages without a password or whole connection string.


MAX_REASON = 200


class NoAnswer(psycopg.OperationalError):
    """The server has not answered in time, although a statement has a limit on its side as well."""


_CANCELLED, _LOCKED = "57014", "55P03"
_NO_TABLE, _NO_COLUMN, _NO_SCHEMA = "42P01", "42703", "3F000"
_NO_PERMISSION = "42501"
# Invalid or damaged values, and values that exceed a limit of the server.
_OF_VALUES = ("22", "53", "54", "XX")
# The server, or a proxy in between, has ended the connection.
_LOST = ("08", "57P")


def connection_error(error: Exception, environment: Mapping[str, str]) -> protocol.LocationUnreadable:
    """The error for a server that cannot be reached or refuses the connection."""
    if isinstance(error, psycopg.errors.ConnectionTimeout | NoAnswer):
        return protocol.LocationUnreadable("postgresql.no_answer")
    passwords = tuple(value for name, value in environment.items() if "PASSWORD" in name)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The text before "failed: " names the host and the port.
    why = (lines[0] if lines else type(error).__name__).rpartition("failed: ")[2]
    why = why.removeprefix("FATAL:").strip().rstrip(".")
    shown = redact_text(why, known_secrets(passwords))[:MAX_REASON]
    return protocol.LocationUnreadable("postgresql.not_connected", why=shown)


def is_lost(error: BaseException) -> bool:
    """Whether the connection has ended, so that a new one may work."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, NoAnswer):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_LOST)


def is_about_row(error: psycopg.Error) -> bool:
    """Whether the server could not read a value, so that other rows may be readable."""
    code = error.sqlstate or ""
    return code.startswith(_OF_VALUES) or code == _CANCELLED


def location_error(error: BaseException, limits: protocol.ReadLimits) -> protocol.LocationUnreadable:
    """The error for a statement that has failed. The server's message may quote rows, and is not shown."""
    if isinstance(error, MemoryError):
        return protocol.LocationLimitExceeded(protocol.too_much_memory(limits).message)
    if isinstance(error, NoAnswer):
        return protocol.LocationUnreadable("postgresql.no_answer")
    if is_lost(error):
        return protocol.LocationUnreadable("postgresql.connection_lost")
    code = getattr(error, "sqlstate", None) or ""
    if code in (_CANCELLED, _LOCKED):
        return protocol.LocationUnreadable("postgresql.timed_out", most=limits.statement_seconds)
    if code == _NO_PERMISSION:
        return protocol.LocationUnreadable("postgresql.no_permission")
    if code in (_NO_TABLE, _NO_COLUMN, _NO_SCHEMA):
        return protocol.LocationUnreadable("postgresql.tables_changed")
    return protocol.LocationUnreadable("postgresql.statement_failed", code=code or type(error).__name__)


# Reads tables of a PostgreSQL database in read-only transactions with a time limit.
#
# Policies, casts and functions of the database run in these transactions, and may remove the server's limits.
# So each statement has a limit in this process as well. A session that exceeds it, or whose reader is
# abandoned, is terminated over another connection. The server also ends sessions whose client has gone.
#
# Imported only in a reader process, since it loads libpq and connects to a server.


CONNECT_SECONDS, MAX_CONNECT_SECONDS = 5, 10
# How long to wait for a statement beyond its limit, and for another connection to terminate a session.
EXTRA_SECONDS, TERMINATE_SECONDS = 3, 3
# The server ends a transaction in which nothing is executed for this time, in which values are decoded.
IDLE_SECONDS = 60
# Of larger tables, only a listing finds what has changed.
MAX_DIGESTED_BYTES = 64 * 1024 * 1024
_Result = TypeVar("_Result")
_TIMEOUTS = """
    SELECT pg_catalog.pg_backend_pid(), set_config('statement_timeout', %s, true),
        set_config('lock_timeout', %s, true), set_config('idle_in_transaction_session_timeout', %s, true)
"""
# Since version 14, and not on every system: how often the server checks that the client is still there.
_CLIENT_CHECK = "SELECT set_config('client_connection_check_interval', '1000', true)"
# Only a session of this role that is in a transaction.
_TERMINATE = """
    SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
    WHERE pid = %s AND usename = current_user AND xact_start IS NOT NULL
"""
# Other users may be able to write to schemas of the search path, so tables are named with their schema.
_SAFE_PATH = "SELECT set_config('search_path', 'pg_catalog', true)"
# The search path of the connection, which has the schemas of the engine's tables.
_OWN_PATH = "SELECT set_config(name, reset_val, true) FROM pg_catalog.pg_settings WHERE name = 'search_path'"
_SEARCHED = """
    SELECT c.relname::text, n.nspname::text, c.relkind::text FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid IN (SELECT pg_catalog.to_regclass(name) FROM pg_catalog.unnest(%s::text[]) name)
"""
# Tables and partitioned tables.
_PLAIN = ("r", "p")
_COLUMNS = """
    SELECT a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
# With partitions and other tables that inherit from it.
_SIZE = """
    WITH RECURSIVE part(oid) AS (
        SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = %s
        UNION ALL SELECT inhrelid FROM pg_inherits JOIN part ON inhparent = part.oid
    )
    SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM part
"""
# An update makes another version of a row, with another transaction and position. Sums need no order.
_DIGEST = """
    SELECT count(*), sum(hashtextextended(concat_ws(' ', tableoid, xmin, ctid), 0))::text FROM {name}
"""


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a time limit for each wait, which no server can change."""

    seconds: float = MAX_CONNECT_SECONDS

    def wait(self, gen: Any, *values: Any, **options: Any) -> Any:
        """As in psycopg. Raises NoAnswer after ``seconds``; the connection is closed then."""
        try:
            return super().wait(_until(gen, time.monotonic() + self.seconds), *values, **options)
        except NoAnswer:
            # A rollback would wait again.
            self.pgconn.finish()
            raise


def _until(waiting: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    """The same generator, which psycopg resumes ten times a second, until a monotonic time in seconds."""
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if time.monotonic() > deadline:
                raise NoAnswer
            wanted = waiting.send(ready)
    except StopIteration as stop:
        return stop.value


class PostgresqlDatabase:
    """One database. Each call of ``retried`` is one transaction, and none stays open after it."""

    kind: Literal["postgresql"] = "postgresql"

    def __init__(self, address: ServerAddress, limits: protocol.ReadLimits) -> None:
        self.limits = limits
        self._address = address
        self._connection: _Connection | None = None
        # The process of the server that executes the current transaction; 0 between transactions.
        self._backend = 0
        self._checks_client = False
        # Constant SQL that differs between versions of the tables.
        self.expressions: Mapping[str, str] = {}
        # The schema of each table that was found.
        self._schemas: dict[str, str] = {}
        # The last mark, and the transactions of the server that had ended then.
        self._marked = ("", "")

    def read_schema(self) -> None:
        """Check that the database has the expected tables. Raises LocationUnreadable."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.retried(self.read_schema)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def retried(self, read: Callable[[], _Result]) -> _Result:
        """What ``read`` returns within one transaction; tried again if an old connection was lost.

        Raises LocationUnreadable.
        """
        for is_last in (False, True):
            is_new = self._connection is None
            try:
                with self._transaction():
                    return read()
            except NoAnswer as error:
                self.abandon()
                self._close()
                raise location_error(error, self.limits) from None
            except (psycopg.Error, UnicodeError, MemoryError) as error:
                was_lost = is_lost(error)
                self._close()
                if is_last or is_new or not was_lost:
                    raise location_error(error, self.limits) from None
        raise protocol.LocationUnreadable("postgresql.connection_lost")

    def mark(self) -> str:
        """A text that differs whenever a row of the tables has changed. Raises LocationUnreadable.

        It differs as well whenever any transaction of the server has ended, if the tables are large.
        """
        return self.retried(self._mark)

    def _mark(self) -> str:
        ((snapshot,),) = self.query("SELECT txid_current_snapshot()::text")
        if snapshot != self._marked[0]:
            # Hashed, since the snapshot lists every open transaction and may be long.
            text = self._digest() or snapshot
            self._marked = snapshot, hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._marked[1]

    def _digest(self) -> str:
        """A digest of the versions of all rows; empty if the tables are large or cannot be read whole."""
        assert self._connection is not None, "It is open within a transaction."
        try:
            with self._connection.transaction():
                tables = sorted(self._schemas.items())
                if sum(self.query(_SIZE, schema, name)[0][0] for name, schema in tables) > MAX_DIGESTED_BYTES:
                    return ""
                return repr(
                    [self.query(_DIGEST.replace("{name}", f"{{{name}}}")) for name, _schema in tables]
                )
        except NoAnswer:
            raise
        except psycopg.Error as error:
            if is_lost(error):
                raise
            return ""

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in which ``{name}`` is a table or an expression of this name.

        Raises psycopg.Error.
        """
        assert self._connection is not None, "It is open within a transaction."
        parts: dict[str, sql.Composable] = {
            **{name: sql.Identifier(schema, name) for name, schema in self._schemas.items()},
            **{name: sql.SQL(expression) for name, expression in self.expressions.items()},
        }
        composed = sql.SQL(statement).format(**parts)
        # In binary format, values of bytea take half the memory.
        return self._connection.execute(composed, values, binary=True).fetchall()

    def row(self, read: Callable[[], _Result]) -> _Result:
        """What ``read`` returns. The transaction can continue if the server cannot read the row.

        Raises Unreadable if it cannot, and psycopg.Error for an error that does not concern the row.
        """
        assert self._connection is not None, "It is open within a transaction."
        try:
            with self._connection.transaction():
                return read()
        except psycopg.Error as error:
            if not is_about_row(error):
                raise
            raise protocol.Broken(location_error(error, self.limits).message) from None

    def find_tables(self, names: Sequence[str]) -> None:
        """Find the schema of each plain table. Raises LocationUnreadable if one is missing."""
        self.query(_OWN_PATH)
        found = {name: (schema, kind) for name, schema, kind in self.query(_SEARCHED, list(names))}
        self.query(_SAFE_PATH)
        for name in names:
            if name not in found:
                raise protocol.LocationUnreadable("postgresql.no_table", table=name)
            if found[name][1] not in _PLAIN:
                raise protocol.LocationUnreadable("store.table_not_plain", table=name)
        self._schemas = {name: found[name][0] for name in names}

    def columns_of(self, table: str) -> frozenset[str]:
        """The columns of a table that was found."""
        return frozenset(name for (name,) in self.query(_COLUMNS, self._schemas[table], table))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._connection is None:
            self._connection = self._connected()
        milliseconds = str(1000 * self.limits.statement_seconds)
        try:
            with self._connection.transaction():
                limits = milliseconds, milliseconds, str(1000 * IDLE_SECONDS)
                self._backend = self.query(_TIMEOUTS, *limits)[0][0]
                if self._checks_client:
                    self.query(_CLIENT_CHECK)
                self.query(_SAFE_PATH)
                yield
        except NoAnswer:
            # The session may still be executing the statement.
            raise
        except BaseException:
            self._backend = 0
            raise
        self._backend = 0

    def _connected(self) -> _Connection:
        """A connection that only reads. Raises LocationUnreadable."""
        try:
            connection = self._opened(_Connection)
            connection.read_only = True
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.seconds = self.limits.statement_seconds + EXTRA_SECONDS
            self._checks_client = _can_check_client(connection)
        except (psycopg.Error, OSError, UnicodeError) as error:
            raise connection_error(error, self._address.environment) from None
        return connection

    def _opened(self, kind: type[_Connection], seconds: int = CONNECT_SECONDS) -> _Connection:
        """A new connection. Raises psycopg.Error."""
        with _variables(self._address.environment, seconds):
            # Without a limit, or with a long one, a server that is silent would be waited for.
            given = psycopg.conninfo.conninfo_to_dict(self._address.conninfo).get("connect_timeout")
            limit = int(given or os.environ["PGCONNECT_TIMEOUT"])
            return kind.connect(
                self._address.conninfo,
                autocommit=True,
                # A connection pooler may run each transaction on another connection.
                prepare_threshold=None,
                connect_timeout=limit if 0 < limit <= MAX_CONNECT_SECONDS else seconds,
                fallback_application_name="forkline",
                client_encoding="utf8",
            )

    def abandon(self) -> None:
        """Terminate the session if it is in a transaction. May be called while another thread waits for it.

        Waits a few seconds. If the server does not answer, its own checks end the session.
        """
        backend, self._backend = self._backend, 0
        if not backend:
            return
        with (
            suppress(psycopg.Error, OSError, UnicodeError, ValueError),
            self._opened(_Connection, TERMINATE_SECONDS) as other,
        ):
            other.seconds = TERMINATE_SECONDS
            other.execute(_TERMINATE, (backend,))

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _can_check_client(connection: _Connection) -> bool:
    """Whether the server can check that the client is still there. Raises psycopg.Error."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(_CLIENT_CHECK)
    except NoAnswer:
        raise
    except psycopg.Error:
        if connection.broken:
            raise
        return False
    return True


@contextmanager
def _variables(variables: Mapping[str, str], seconds: int) -> Iterator[None]:
    """Set libpq's variables only while it connects, since this process reads other locations as well."""
    former = dict(os.environ)
    os.environ.update({"PGCONNECT_TIMEOUT": str(seconds), **variables})
    try:
        yield
    finally:
        for name in os.environ.keys() - former.keys():
            del os.environ[name]
        os.environ.update(former)
