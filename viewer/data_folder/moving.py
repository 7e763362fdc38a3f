"""Moves all rows to another database: from SQLite to PostgreSQL, or back.

Everything is copied and compared in one transaction of the target, which also marks it: no process uses a
marked database. Then the source is retired, and the mark is removed last. So no job can start from both, and
a move that was ended at any step can be repeated. If the source was used since, its rows replace those of the
marked target.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from django.apps import apps
from django.conf import settings
from django.core.management.color import no_style
from django.db import DatabaseError, connection, connections, models, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder import database_server, prepare_data_folder
from viewer.data_folder.database_file import backup_path, put_aside
from viewer.data_folder.failures import DataFolderFailure, database_path, failure_text
from viewer.data_folder.locks import end_use, nobody_else
from viewer.data_folder.migrating import MARK
from viewer.models import AuditEntry, Host
from viewer.models.hosts import HostRequest

# The alias of the database that rows are moved to.
TARGET = "target"
# Rows that are read, and stored, at once.
BATCH = 500
# What migrations create. A database that has nothing else is empty.
CREATED = ("contenttypes.ContentType", "auth.Permission", "viewer.Host")


@dataclass(slots=True)
class Moved:
    """How many rows each table has, and where the former database is kept; None on a server."""

    rows: dict[str, int] = field(default_factory=dict)
    kept: Path | None = None


@dataclass(slots=True)
class Digest:
    """The number of rows of a table, and a digest that does not depend on their order."""

    count: int = 0
    total: int = 0

    def add(self, values: tuple[Any, ...]) -> None:
        encoded = msgspec.json.encode([_comparable(one) for one in values])
        self.total = (self.total + int.from_bytes(sha256(encoded).digest(), "big")) % 2**256
        self.count += 1


def move(database: Mapping[str, Any], variables: Mapping[str, str]) -> Moved:
    """Move all rows to this database, as Django's setting describes it. Nothing may use the data folder.

    ``variables`` are those with which a process uses it. Raises DataFolderFailure, and then has changed
    nothing. Completes a move that was ended before.
    """
    use_target(database)
    mark = read_mark()
    if is_retired := bool(mark) and has_name(mark.source):
        Path(settings.DATA_DIR).mkdir(parents=True, exist_ok=True, mode=0o700)
    else:
        prepare_data_folder()
        if not mark:
            create_tables(variables)
    end_use()
    try:
        refuse_same()
        with nobody_else():
            moved = counted(mark.source) if is_retired else copy_and_retire()
            end_move()
    except DatabaseError as error:
        text = _("Nothing was moved: %(reason)s")
        raise DataFolderFailure(text % {"reason": failure_text(error) or str(error).strip()}) from error
    return moved


def copy_and_retire() -> Moved:
    """Copy all rows, and retire the source. Raises DataFolderFailure, or DatabaseError."""
    if not postgresql.is_used():
        kept = backup_path(Path(settings.DATA_DIR), "moved")
        rows = copy_all(str(kept))
        retire_file(kept)
        return Moved(rows, kept)
    name = f"{database_server.MOVED}{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
    tables = moved_models()
    with transaction.atomic():
        # A machine that was away may return at any time.
        database_server.lock_tables([model._meta.db_table for model in tables])
        refuse_live_hosts()
        rows = copy_all(name)
        database_server.retire(name, [model._meta.db_table for model in tables])
    return Moved(rows)


def retire_file(kept: Path) -> None:
    """Put the file of SQLite aside under this name."""
    connections.close_all()
    put_aside(kept)
    database_path().unlink(missing_ok=True)


class Mark(NamedTuple):
    """The mark of a target whose move has not ended; false if it has none.

    ``source`` is the name of its source once that is retired, and ``created_at`` when its source was created:
    only that database may replace the rows of the target.
    """

    source: str = ""
    created_at: str = ""

    def __bool__(self) -> bool:
        return bool(self.source)


def created_at() -> str:
    """Return when this database was created, to the microsecond. Copies of it have the same time."""
    return str(MigrationRecorder.Migration.objects.earliest("applied").applied.isoformat())


def read_mark() -> Mark:
    """Return the mark of the target, also if it cannot be read."""
    target = connections[TARGET]
    if target.vendor == "sqlite" and not Path(str(target.settings_dict["NAME"])).exists():
        return Mark()
    with suppress(DatabaseError):
        if MARK in target.introspection.table_names():
            with target.cursor() as cursor:
                # Earlier versions recorded no time.
                cursor.execute(f"SELECT * FROM {MARK}")  # noqa: S608
                return Mark(*map(str, cursor.fetchone()))
    return Mark()


def has_name(source: str) -> bool:
    """Whether this database is the source that a mark names, and retired."""
    if postgresql.is_used():
        with suppress(DatabaseError):
            return database_server.comment() == source
        return False
    kept, path = Path(source), database_path()
    # A new file may be at its former path.
    return kept.is_file() and not (path.exists() and path.samefile(kept))


def write_mark(source: str) -> None:
    """Mark the target in the transaction that fills it."""
    with connections[TARGET].cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {MARK}")
        cursor.execute(f"CREATE TABLE {MARK} (source text NOT NULL, created_at text NOT NULL)")
        cursor.execute(f"INSERT INTO {MARK} VALUES (%s, %s)", [source, created_at()])  # noqa: S608


def end_move() -> None:
    """Remove the mark. From now on the target can be used."""
    with connections[TARGET].cursor() as cursor:
        cursor.execute(f"DROP TABLE {MARK}")


def counted(source: str) -> Moved:
    """What a move that was ended after its source was retired has moved."""
    rows = {one._meta.db_table: one._base_manager.using(TARGET).count() for one in moved_models()}
    return Moved(rows, None if postgresql.is_used() else Path(source))


def create_tables(variables: Mapping[str, str]) -> None:
    """Have a process create the target's tables, or refuse it. Raises DataFolderFailure with its message."""
    command = [sys.executable, "-m", "django", "checkpoints", "answer"]
    environment = {**os.environ, **variables}
    ended = subprocess.run(
        command, cwd=settings.ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [""]
        raise DataFolderFailure(said[-1].removeprefix("CommandError: "))


def use_target(database: Mapping[str, Any]) -> None:
    """Make the target known to Django."""
    connections.settings = connections.configure_settings({**settings.DATABASES, TARGET: dict(database)})


def refuse_same() -> None:
    """Raise DataFolderFailure if the target is the database that is used now."""
    source, target = connection, connections[TARGET]
    is_same = source.vendor == target.vendor
    if is_same and source.vendor == "postgresql":
        is_same = database_server.identity_of(source) == database_server.identity_of(target)
    if is_same:
        raise DataFolderFailure(_("The rows are already there. Name another database."))


def refuse_live_hosts() -> None:
    """Raise DataFolderFailure while machines that share the database are up."""
    if settings.IS_DATABASE_SHARED and (hosts := list(Host.objects.live())):
        names = ", ".join(host.name for host in hosts)
        text = _("These hosts are running: %(names)s. Stop their workers.")
        raise DataFolderFailure(text % {"names": names})


def moved_models() -> list[type[models.Model]]:
    """All models with rows that outlive a process."""
    found = apps.get_models(include_auto_created=True)
    return [one for one in found if one._meta.app_label != "procrastinate" and one is not HostRequest]


def copy_all(source: str) -> dict[str, int]:
    """Copy the rows of all tables, and return how many each has. Raises DataFolderFailure.

    They replace what an ended move of this database has left in the target.
    """
    tables, is_unfinished = moved_models(), read_mark().created_at == created_at()
    with transaction.atomic(using=TARGET):
        write_mark(source)
        if is_unfinished:
            delete_all(tables)
        elif not is_empty(tables):
            return refuse_other_rows(tables)
        for label in CREATED:
            apps.get_model(label)._base_manager.using(TARGET).all()._raw_delete(TARGET)
        copied = {model._meta.db_table: copy_rows(model) for model in tables}
        copy_sequences(tables)
        for model in tables:
            if digest_of(model, TARGET) != copied[model._meta.db_table]:
                text = _("The rows of %(table)s differ after they were copied. Nothing was moved.")
                raise DataFolderFailure(text % {"table": model._meta.db_table})
    return {table: digest.count for table, digest in copied.items()}


def delete_all(tables: list[type[models.Model]]) -> None:
    """Delete all rows of the target, which no process has used."""
    with connections[TARGET].cursor() as cursor:
        # The triggers of the audit trail refuse that. A rollback brings them back.
        triggers = audit_triggers(cursor)
        for drop, _create in triggers:
            cursor.execute(drop)
        for model in tables:
            model._base_manager.using(TARGET).all()._raw_delete(TARGET)
        for _drop, create in triggers:
            cursor.execute(create)


def audit_triggers(cursor: CursorWrapper) -> list[tuple[str, str]]:
    """The statements that switch the triggers of the audit trail off, and on again."""
    table = AuditEntry._meta.db_table
    if connections[TARGET].vendor == "postgresql":
        switch = f"ALTER TABLE {table} {{}} TRIGGER USER"
        return [(switch.format("DISABLE"), switch.format("ENABLE"))]
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [table])
    return [(f"DROP TRIGGER {name}", sql) for name, sql in cursor.fetchall()]


def is_empty(tables: list[type[models.Model]]) -> bool:
    """Whether the target has only what migrations create, and no machine has used it."""
    others = [model for model in tables if model._meta.label not in CREATED]
    used = Host.objects.using(TARGET).exclude(instance="", seen_at=None)
    return not used.exists() and not any(model._base_manager.using(TARGET).exists() for model in others)


def refuse_other_rows(tables: list[type[models.Model]]) -> dict[str, int]:
    """Return the number of rows if the target has all of ours, and no others. Raises DataFolderFailure.

    It has if a former move was ended after its commit.
    """
    counts = {}
    for model in tables:
        ours = digest_of(model, "default")
        if ours != digest_of(model, TARGET):
            text = _("The target has other rows, such as in %(table)s. Name an empty database.")
            raise DataFolderFailure(text % {"table": model._meta.db_table})
        counts[model._meta.db_table] = ours.count
    return counts


def copy_rows(model: type[models.Model]) -> Digest:
    """Copy the rows of a table with their keys. Return the digest of what was read."""
    digest, target = Digest(), model._base_manager.using(TARGET)
    names = [one.attname for one in model._meta.concrete_fields]
    rows = _values(model, "default")
    while some := list(islice(rows, BATCH)):
        for values in some:
            digest.add(values)
        # Without a call of save, which would change what is stored.
        target.bulk_create(model(**dict(zip(names, values, strict=True))) for values in some)
    return digest


def digest_of(model: type[models.Model], alias: str) -> Digest:
    """The digest of a table's rows."""
    digest = Digest()
    for values in _values(model, alias):
        digest.add(values)
    return digest


def _values(model: type[models.Model], alias: str) -> Iterator[tuple[Any, ...]]:
    names = [one.attname for one in model._meta.concrete_fields]
    rows = model._base_manager.using(alias).order_by().values_list(*names)
    return iter(rows.iterator(chunk_size=BATCH))


def _comparable(value: Any) -> Any:
    """The value as both databases store it."""
    if isinstance(value, str):
        # PostgreSQL stores others for half of a surrogate pair, which JSON can hold, and for NUL.
        return value.encode(errors="replace").decode().replace("\0", postgresql.REPLACEMENT)
    if isinstance(value, bytes | memoryview):
        return sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return {_comparable(name): _comparable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    return value.as_data() if hasattr(value, "as_data") else value


# The numbers that new rows get.


def copy_sequences(tables: list[type[models.Model]]) -> None:
    """Continue each sequence where the source's has arrived, so that no key is given twice."""
    target = connections[TARGET]
    with target.cursor() as cursor:
        for statement in target.ops.sequence_reset_sql(no_style(), tables):
            cursor.execute(statement)
        for table, last in last_numbers(tables).items():
            if target.vendor == "postgresql":
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [f'"{table}"', last])
            else:
                cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, last])


def last_numbers(tables: list[type[models.Model]]) -> dict[str, int]:
    """The last number that the source has given to a row of each table."""
    kinds = (models.AutoField, models.BigAutoField)
    numbered = [one._meta.db_table for one in tables if isinstance(one._meta.pk, kinds)]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, seq FROM sqlite_sequence")
            found = dict(cursor.fetchall())
            return {table: found[table] for table in numbered if found.get(table)}
        last: dict[str, int] = {}
        for table in numbered:
            cursor.execute(
                "SELECT pg_sequence_last_value(pg_get_serial_sequence(%s, 'id')::regclass)", [f'"{table}"']
            )
            if number := cursor.fetchone()[0]:
                last[table] = number
        return last
