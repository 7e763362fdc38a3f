"""Connects to the database of a location, as an environment variable of this process says.

The password is in no file and no message. The variable is removed before the project's code runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

# The prefix of the path of a location in PostgreSQL.
PREFIX = "postgresql:"
# Set by the process that starts this one: ``conninfo``, and libpq's variables in ``environment``.
VARIABLE = "FORKLINE_STORE"
CONNECT_TIMEOUT_SECONDS = "10"
SAVER = "langgraph-checkpoint-postgres"
_taken: dict[str, Any] = {}


def is_database(path: object) -> bool:
    """Return whether this is the path of a location in PostgreSQL."""
    return str(path).startswith(PREFIX)


def take(reporter: Reporter) -> None:
    """Remove the connection from the environment, and hide its passwords in all reported events."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return
    _taken.update(json.loads(text))
    passwords = [value for name, value in _taken["environment"].items() if "PASSWORD" in name]
    reporter.hide([*passwords, *_password_in(_taken["conninfo"])])


def _password_in(conninfo: str) -> list[str]:
    try:
        from psycopg.conninfo import conninfo_to_dict

        return [str(value) for name, value in conninfo_to_dict(conninfo).items() if "password" in name]
    except Exception:
        # Connecting reports the error. Until then, hide the whole text.
        return [conninfo]


@contextmanager
def connected(path: object, *, read_only: bool = False) -> Iterator[Any]:
    """Yield a connection in autocommit mode, like those that the engine opens. Raises Refused."""
    try:
        import psycopg
        from psycopg.rows import dict_row
    except ImportError as error:
        raise Refused("langgraph.no_psycopg", package=SAVER) from error
    if not _taken:
        raise Refused("langgraph.no_connection", path=path)
    try:
        with _variables(_taken["environment"]):
            connection = psycopg.connect(
                _taken["conninfo"],
                autocommit=True,
                prepare_threshold=None,
                fallback_application_name="forkline",
                row_factory=dict_row,
            )
    except psycopg.Error as error:
        # Without psycopg's message, which names the host and the role.
        raise Refused("langgraph.not_connected", path=path, kind=type(error).__name__) from None
    try:
        connection.read_only = read_only
        yield connection
    finally:
        connection.close()


@contextmanager
def refusing(path: object) -> Iterator[None]:
    """Raise Refused for database errors in the block. Not for runs: nodes may use other databases."""
    import psycopg

    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refused("langgraph.store_not_writable", path=path) from error
    except psycopg.Error as error:
        raise Refused("langgraph.database_failed", path=path, error=_reason(error)) from error


def _reason(error: Any) -> str:
    """Return the first line of a server's message, without the rows that it may quote."""
    found = error.diag.message_primary or str(error).partition("\n")[0]
    return str(found)[:200]


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for libpq within the block."""
    former = dict(os.environ)
    os.environ.update({"PGCONNECT_TIMEOUT": CONNECT_TIMEOUT_SECONDS, **variables})
    try:
        yield
    finally:
        for name in os.environ.keys() - former.keys():
            del os.environ[name]
        os.environ.update(former)
