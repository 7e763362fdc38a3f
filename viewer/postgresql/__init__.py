"""Forkline's own rows on a PostgreSQL server, if ``DATABASE_URL`` names one. Otherwise they are in SQLite.

Each module is the counterpart of one that uses SQLite's file, behind the same functions of ``data_folder``.
Locations in PostgreSQL are another subject: ``viewer.stores``.
"""

import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import NotSupportedError, ProgrammingError, connection, transaction

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
