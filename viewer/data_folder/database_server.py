"""The tables on a PostgreSQL server: which version made them, and their upgrade."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder.failures import DataFolderFailure, failure_text
from viewer.data_folder.locks import row_lock
from viewer.data_folder.migrating import (
    Inspected,
    apply_migrations,
    create_tables,
    inspected,
    refuse_other_versions,
    version_number,
)
from viewer.postgresql import ROWS_MOVED, moved_text, read_only_text

# The oldest version of the server, as the number that libpq reports.
OLDEST_SERVER = 14
# The version that has used the tables, in the comment of one of them.
COMMENT = "Forkline "
# The comment after the rows were moved to another database. The time follows.
MOVED = "Moved away from here by Forkline, "
REFUSE_WRITES = (
    "CREATE FUNCTION forkline_moved() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION 'moved to another database' USING ERRCODE = '{ROWS_MOVED}'; END $$"
)


def bring_up_to_date() -> None:
    """Create the tables, or apply the missing migrations. Raises DataFolderFailure.

    Only one process does so, on whichever machine. A copy from before an upgrade is made with ``pg_dump``.
    """
    try:
        refuse_server(*server_facts())
        with row_lock("preparing", wait=True):
            found = inspect()
            refuse_other_versions(postgresql.server_name(), found)
            if found.is_new:
                create_tables()
            elif found.unapplied:
                apply_migrations()
            if found.unapplied or found.version < version_number(settings.VERSION):
                # Completes an upgrade that ended after its migrations as well.
                order_texts_by_bytes()
                note_version()
    except MigrationSchemaMissing as error:
        # Django raises it in place of the database's error.
        raise DataFolderFailure(failure_text(error.__context__ or error) or str(error)) from error
    except DatabaseError as error:
        name = postgresql.server_name()
        raise DataFolderFailure(failure_text(error) or f"{name}: {error}") from error


def server_facts() -> tuple[int, str]:
    """The server's major version, and the encoding of the database. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding')"
        )
        version, encoding = cursor.fetchone()
    return int(version), str(encoding)


def refuse_server(version: int, encoding: str) -> None:
    """Raise DataFolderFailure for a server that is too old, or a database that cannot hold every text."""
    name = postgresql.server_name()
    if version < OLDEST_SERVER:
        text = _("%(database)s runs PostgreSQL %(version)s. Forkline needs %(oldest)s or newer.")
        values = {"database": name, "version": version, "oldest": OLDEST_SERVER}
        raise DataFolderFailure(text % values)
    if encoding != "UTF8":
        text = _("%(database)s has the encoding %(encoding)s. Create it with the encoding UTF8.")
        raise DataFolderFailure(text % {"database": name, "encoding": encoding})


def refuse_read_only() -> None:
    """Raise DataFolderFailure if the server accepts no changes, as a standby. Raises DatabaseError."""
    if _rows("SHOW transaction_read_only") == [("on",)]:
        raise DataFolderFailure(read_only_text())


def refuse_copies() -> None:
    """Raise DataFolderFailure if the rows are on a server, whose own programs copy and restore them."""
    if postgresql.is_used():
        text = _("The rows are in PostgreSQL (%(database)s). Use pg_dump and pg_restore.")
        raise DataFolderFailure(text % {"database": postgresql.server_name()})


def inspect() -> Inspected:
    """Inspect the tables. Raises DataFolderFailure if they are another program's, or DatabaseError."""
    tables = set(connection.introspection.table_names())
    applied: set[tuple[str, str]] = set()
    version = 0
    if "django_migrations" in tables:
        applied = {(app, name) for app, name in _rows("SELECT app, name FROM django_migrations")}
        if comment().startswith(MOVED):
            raise DataFolderFailure(moved_text())
        number = comment().removeprefix(COMMENT)
        version = int(number) if number.isdigit() else 0
    return inspected(postgresql.server_name(), tables, applied, version)


def order_texts_by_bytes() -> None:
    """Have all of our texts ordered and compared as SQLite does, whatever the language of the database is."""
    found = _rows(
        "SELECT table_name, column_name, format_type(atttypid, atttypmod) FROM information_schema.columns"
        " JOIN pg_attribute ON attrelid = quote_ident(table_name)::regclass AND attname = column_name"
        " WHERE table_schema = current_schema() AND starts_with(table_name, 'viewer_')"
        " AND data_type IN ('text', 'character varying') AND collation_name IS DISTINCT FROM 'C'"
    )
    changes: dict[str, list[str]] = {}
    for table, column, kind in found:
        changes.setdefault(table, []).append(f'ALTER COLUMN "{column}" TYPE {kind} COLLATE "C"')
    with connection.cursor() as cursor:
        for table, parts in changes.items():
            cursor.execute(f'ALTER TABLE "{table}" {", ".join(parts)}')


def note_version() -> None:
    """Record that the tables are Forkline's, and the newest version that has used them."""
    number = version_number(settings.VERSION)
    with connection.cursor() as cursor:
        cursor.execute(f"COMMENT ON TABLE django_migrations IS '{COMMENT}{number:d}'")


def identity_of(database: Any) -> tuple[Any, ...]:
    """Return an identifier of this connection's database that does not depend on its address."""
    with database.cursor() as cursor:
        cursor.execute(
            "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
        )
        return tuple(cursor.fetchone())


def comment() -> str:
    """Return which version has used the tables, or that they are retired; empty if neither is recorded."""
    ((found,),) = _rows("SELECT obj_description(to_regclass('django_migrations'), 'pg_class')")
    return str(found or "")


def lock_tables(tables: Sequence[str]) -> None:
    """Block other writers until the transaction ends. Raises DatabaseError if one does not finish in 10 s."""
    names = ", ".join(f'"{table}"' for table in tables)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '10s'")
        cursor.execute(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")


def retire(name: str, tables: Sequence[str]) -> None:
    """Record that the rows were moved away. From then on no process uses these tables or writes to them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_literal(%s)", [name])
        cursor.execute(f"COMMENT ON TABLE django_migrations IS {cursor.fetchone()[0]}")
        # A machine that was away may not know it.
        cursor.execute(REFUSE_WRITES)
        for table in tables:
            cursor.execute(
                f'CREATE TRIGGER forkline_moved BEFORE INSERT OR UPDATE OR DELETE ON "{table}"'
                " FOR EACH STATEMENT EXECUTE FUNCTION forkline_moved()"
            )


def _rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
