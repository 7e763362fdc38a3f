"""How the store of a location is opened: a PostgreSQL database, or a SQLite file to read it.

The connection of a database is in an environment variable of this process. Its password is in no file and no
message, and the variable is removed before the project's code runs. psycopg is imported only for a database.

Reading a SQLite file neither changes it nor leaves other files next to it. A plain read-only connection to a
file in WAL mode would create ``-wal`` and ``-shm`` files. How the file is opened therefore depends on the
files that exist, as in viewer/stores/sqlite_file.py.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from forkline_runner.messages import Refused
from forkline_runner.recorded import own_connection

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request


# The prefix of the path of a location in PostgreSQL.
PREFIX = "postgresql:"
# Set by the process that starts this one: ``conninfo``, and libpq's variables in ``environment``.
VARIABLE = "FORKLINE_STORE"
CONNECT_TIMEOUT_SECONDS = "10"
SAVER = "langgraph-checkpoint-postgres"
_taken: dict[str, Any] = {}


def refuse_other_location(request: Request) -> None:
    """Raise Refused if the store's path has become a link: the run would read or write elsewhere."""
    path = Path(request["location"]["path"])
    if is_database(path):
        return
    if request["location"]["store_kind"] == "saver":
        # The runner reads a copy of the thread.
        if request["kind"] in ("run", "publish") or (request.get("options") or {}).get("into"):
            raise Refused("saver.no_runs")
        return
    if request["location"]["store_kind"] != "sqlite":
        raise Refused("langgraph.only_sqlite")
    if path.resolve() != path:
        raise Refused("langgraph.location_is_link", path=path, place=path.resolve())


def is_database(path: object) -> bool:
    """Return whether this is the path of a location in PostgreSQL."""
    return str(path).startswith(PREFIX)


def take(reporter: Reporter | None = None) -> None:
    """Remove the connection from the environment, and hide its passwords in all reported events."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return
    _taken.update(json.loads(text))
    if reporter is None:
        return
    passwords = [value for name, value in _taken["environment"].items() if "PASSWORD" in name]
    reporter.hide([*passwords, *_password_in(_taken["conninfo"])])


def _password_in(conninfo: str) -> list[str]:
    try:
        from psycopg.conninfo import conninfo_to_dict

        return [str(value) for name, value in conninfo_to_dict(conninfo).items() if "password" in name]
    except Exception:
        # Connecting reports the error. Until then, hide the whole text.
        return [conninfo]


def rows_of(connection: Any, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement in a database."""
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        found: list[tuple[Any, ...]] = cursor.execute(statement, values).fetchall()
        return found


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
        with _variables(_taken["environment"]), own_connection():
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


# Bytes 18 and 19 of a database's header are the versions of its format: 2 means WAL mode.
WRITE_VERSION, IN_WAL_MODE = slice(18, 20), b"\x02\x02"
# How many times a file without a lock is copied because a writer has changed it meanwhile.
MAX_COPIES = 10
# The resolution of a file system's modification times.
CLOCK_TICK_NANOSECONDS = 20_000_000
# The size, times and inode of a file, and of its log; None for a missing one.
State = tuple["tuple[int, int, int, int] | None", ...]


def address_of_file(path: Path, scratch: Path) -> tuple[str, State | None]:
    """Return the URI that SQLite opens, and the state that a file read without a lock must still have.

    The state is None if SQLite locks the file, or opens a copy. ``scratch`` is the folder for a copy. Raises
    Refused and OSError.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    for _attempt in range(MAX_COPIES):
        with open(path, "rb") as file:
            is_wal = file.read(100)[WRITE_VERSION] == IN_WAL_MODE
        if not is_wal:
            return f"file:{quote(os.fsencode(path))}?mode=ro", None
        if log.exists() and index.exists():
            return f"file:{quote(os.fsencode(path))}?mode=ro&readonly_shm=1", None
        state = _stable_state(path)
        if not log.exists():
            return f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", state
        if copy := _copied(path, log, scratch, state):
            return f"file:{quote(os.fsencode(copy))}", None
    raise Refused("langgraph.store_changed", path=path)


def _copied(path: Path, log: Path, scratch: Path, state: State) -> Path | None:
    """Copy a file and its log. Return the copy; None if a writer has changed one of them meanwhile."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    copy = scratch / "source.sqlite"
    with suppress(FileNotFoundError):
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
    return copy if state == state_of(path) else None


def state_of(path: Path) -> State:
    """Return what differs after a writer has changed the file or its log."""
    found: State = ()
    for end in ("", "-wal"):
        try:
            status = Path(f"{path}{end}").stat()
        except FileNotFoundError:
            found += (None,)
        else:
            found += ((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino),)
    return found


def _stable_state(path: Path) -> State:
    """Return the current state, once it is so old that a write certainly changes it. Waits up to a second."""
    for _attempt in range(100):
        state = state_of(path)
        newest = max((one[1] for one in state if one), default=0)
        if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
            break
        time.sleep(0.01)
    return state
