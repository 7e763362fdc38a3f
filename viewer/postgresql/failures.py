"""Errors of the PostgreSQL server that holds the rows, as one sentence that says what to do."""

import re

from django.db.utils import DatabaseError, InterfaceError
from django.utils.translation import gettext as _

from viewer import postgresql

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
    return _sentence(code) % {"database": postgresql.server_name()}


def read_only_text() -> str:
    """That the server accepts no changes."""
    text = _(
        "The PostgreSQL database is read-only: %(database)s. Check that DATABASE_URL leads to the primary"
        " server."
    )
    return text % {"database": postgresql.server_name()}


def moved_text() -> str:
    """That the rows are in another database."""
    text = _("The rows of %(database)s were moved to another database. Choose that one.")
    return text % {"database": postgresql.server_name()}


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
