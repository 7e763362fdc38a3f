"""The connection to the database of a location, from a variable that only this process has seen.

Its password is in no file and no message. It is removed from the environment before the project's code runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

# What the path of such a location begins with.
PREFIX = "postgresql:"
# Set by the process that starts this one: ``conninfo``, and libpq's variables in ``environment``.
VARIABLE = "FORKLINE_STORE"
SECONDS = "10"
SAVER = "langgraph-checkpoint-postgres"
_taken: dict[str, Any] = {}


def is_database(place: object) -> bool:
    """Whether this is the path of a location in PostgreSQL."""
    return str(place).startswith(PREFIX)


def take(reporter: Reporter) -> None:
    """Remove the connection from the environment, and keep its passwords out of what is reported."""
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
        # Connecting says what is wrong with it.
        return [conninfo]


@contextmanager
def connected(place: object, *, read_only: bool = False) -> Iterator[Any]:
    """A connection, in autocommit mode as the engine opens one. Raises Refused."""
    try:
        import psycopg
        from psycopg.rows import dict_row
    except ImportError as error:
        raise Refused("langgraph.no_psycopg", package=SAVER) from error
    if not _taken:
        raise Refused("langgraph.no_connection", path=place)
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
        # The message names the host and the role.
        raise Refused("langgraph.not_connected", path=place, kind=type(error).__name__) from None
    try:
        connection.read_only = read_only
        yield connection
    finally:
        connection.close()


@contextmanager
def refusing(place: object) -> Iterator[None]:
    """Raise Refused for what the server refuses. Not used for a run: nodes may use other databases."""
    import psycopg

    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refused("langgraph.store_not_writable", path=place) from error
    except psycopg.Error as error:
        raise Refused("langgraph.database_failed", path=place, error=_reason(error)) from error


def _reason(error: Any) -> str:
    """The first line of a server's message, without the rows that it may quote."""
    found = error.diag.message_primary or str(error).partition("\n")[0]
    return str(found)[:200]


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that libpq reads, only while it connects."""
    former = dict(os.environ)
    os.environ.update({"PGCONNECT_TIMEOUT": SECONDS, **variables})
    try:
        yield
    finally:
        for name in os.environ.keys() - former.keys():
            del os.environ[name]
        os.environ.update(former)
