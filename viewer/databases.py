"""The database of Forkline's own rows, as Django's setting ``DATABASES`` describes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viewer import sqlite_pragmas

# Opening a connection takes as long as several queries. Each thread has one: PAGE_THREADS and
# SOCKET_THREADS of the web server bound their number.
CONN_MAX_AGE = None
CONNECT_SECONDS = 5


def parameters_in(text: str) -> dict[str, str]:
    """The parameters of libpq in the address of a PostgreSQL database. Raises ValueError.

    The message does not quote it, as it may hold a password.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = {name: str(value) for name, value in conninfo_to_dict(text).items() if value is not None}
    except ProgrammingError:
        found = {}
    if not found.get("dbname") and "service" not in found:
        raise ValueError("must be the address of a database: postgresql://USER:PASSWORD@HOST/NAME.")
    return found


def sqlite_database(folder: Path) -> dict[str, Any]:
    """The file in the data folder."""
    return {
        "ENGINE": "checkpoint_site.sqlite_backend",
        "NAME": folder / "forkline.sqlite3",
        "CONN_MAX_AGE": CONN_MAX_AGE,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": sqlite_pragmas.ON_CONNECT,
        },
    }


def postgresql_database(parameters: Mapping[str, str], *, has_pooler: bool) -> dict[str, Any]:
    """The database of these parameters of libpq. Behind a pooler, no cursor outlives its transaction."""
    named = {"dbname", "user", "password", "host", "port"}
    return {
        "ENGINE": "checkpoint_site.postgresql_backend",
        "NAME": parameters.get("dbname", ""),
        "USER": parameters.get("user", ""),
        "PASSWORD": parameters.get("password", ""),
        "HOST": parameters.get("host", ""),
        "PORT": parameters.get("port", ""),
        "CONN_MAX_AGE": CONN_MAX_AGE,
        # The server may have been restarted since the last request.
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": has_pooler,
        "OPTIONS": {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "forkline",
            **{name: value for name, value in parameters.items() if name not in named},
        },
    }
