"""Turns errors of libpq and of a server into messages without a password or whole connection string."""

from collections.abc import Mapping

import psycopg

from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.texts import redact_text
from viewer.stores.errors import LocationLimitExceeded, LocationUnreadable
from viewer.stores.protocol import ReadLimits
from viewer.stores.snapshots import too_much_memory

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


def connection_error(error: Exception, environment: Mapping[str, str]) -> LocationUnreadable:
    """The error for a server that cannot be reached or refuses the connection."""
    if isinstance(error, psycopg.errors.ConnectionTimeout | NoAnswer):
        return LocationUnreadable("postgresql.no_answer")
    passwords = tuple(value for name, value in environment.items() if "PASSWORD" in name)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The text before "failed: " names the host and the port.
    why = (lines[0] if lines else type(error).__name__).rpartition("failed: ")[2]
    why = why.removeprefix("FATAL:").strip().rstrip(".")
    shown = redact_text(why, known_secrets(passwords))[:MAX_REASON]
    return LocationUnreadable("postgresql.not_connected", why=shown)


def is_lost(error: BaseException) -> bool:
    """Whether the connection has ended, so that a new one may work."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, NoAnswer):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_LOST)


def is_about_row(error: psycopg.Error) -> bool:
    """Whether the server could not read a value, so that other rows may be readable."""
    code = error.sqlstate or ""
    return code.startswith(_OF_VALUES) or code == _CANCELLED


def location_error(error: BaseException, limits: ReadLimits) -> LocationUnreadable:
    """The error for a statement that has failed. The server's message may quote rows, and is not shown."""
    if isinstance(error, MemoryError):
        return LocationLimitExceeded(too_much_memory(limits).message)
    if isinstance(error, NoAnswer):
        return LocationUnreadable("postgresql.no_answer")
    if is_lost(error):
        return LocationUnreadable("postgresql.connection_lost")
    code = getattr(error, "sqlstate", None) or ""
    if code in (_CANCELLED, _LOCKED):
        return LocationUnreadable("postgresql.timed_out", most=limits.statement_seconds)
    if code == _NO_PERMISSION:
        return LocationUnreadable("postgresql.no_permission")
    if code in (_NO_TABLE, _NO_COLUMN, _NO_SCHEMA):
        return LocationUnreadable("postgresql.tables_changed")
    return LocationUnreadable("postgresql.statement_failed", code=code or type(error).__name__)
