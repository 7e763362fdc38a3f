"""The checkpoints of a location: the one that a run starts from, and those that it writes.

The first is read without changing the location, and gets a person's edits. A run only prunes its own
checkpoints, and only writes to the location where it began to write. Does not import the engine.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sqlite3
import stat
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from forkline_crewai.effects import dicts_in
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import OutputEdit, Request

Entity = dict[str, Any]
# The first SQLite with JSONB, which the engine's stores use.
MIN_SQLITE = (3, 45, 0)
# Seconds to wait for a writer that has locked the store.
LOCK_SECONDS = 5.0
# The byte of a SQLite file that says how it is written, see https://www.sqlite.org/fileformat.html.
WRITE_VERSION, IN_WAL_MODE = slice(18, 19), b"\x02"
MISSING = {
    "crew": "crewai.no_crew",
    "flow": "crewai.no_flow",
    "agent": "crewai.no_agent",
}


def read_original(request: Request) -> dict[str, Any]:
    """Return the checkpoint as it was written. Raises Refused if it cannot be read."""
    if request["location"]["store_kind"] == "sqlite":
        use_recent_sqlite()
    source, stored = request["checkpoint"]["source"], bool(request["checkpoint"].get("stored"))
    if stored and not request["entry_point"]:
        raise Refused("crewai.stored_copy_needs_entry_point")
    try:
        if request["location"]["store_kind"] == "sqlite" and not stored:
            text = _row(request)
        else:
            text = _decoded(Path(source).read_bytes())
        body = json.loads(text)
    except (OSError, ValueError, _database().Error) as error:
        if isinstance(error, FileNotFoundError) and not stored:
            raise _missing(request) from error
        raise Refused("crewai.checkpoint_unreadable", source=source, error=error) from error
    if not isinstance(body, dict) or not isinstance(body.get("entities"), list):
        raise Refused("crewai.not_a_checkpoint", source=source)
    return body


# The flow of a state, if no later state of it was stored.
NEWEST = """
    SELECT flow_uuid FROM flow_states AS one WHERE rowid = ? AND NOT EXISTS
        (SELECT 1 FROM flow_states WHERE flow_uuid = one.flow_uuid AND rowid > one.rowid)
"""


class StoredState(NamedTuple):
    """A state of a flow that ``@persist`` stored, with the id of the flow and the method that ran before.

    ``question`` is the context of the feedback that the flow waits for after it; None if it waits for none.
    """

    store: Path
    flow: str
    method: str
    values: dict[str, Any]
    question: dict[str, Any] | None


def read_state(request: Request) -> StoredState:
    """Return the state that a run starts from, with a person's edits. Raises Refused if there is none."""
    if request["checkpoint"].get("stored"):
        return _stored_state(request)
    identifier = request["checkpoint"]["id"]
    path = Path(request["checkpoint"]["source"].rpartition("#")[0])
    query = "SELECT flow_uuid, method_name, state_json FROM flow_states WHERE rowid = ?"
    question = None
    try:
        # The id of a state ends with its rowid.
        rowid = int(identifier.rpartition("_")[2], 16)
        with opened(path) as connection:
            row = connection.execute(query, (rowid,)).fetchone()
            if row and row[:1] in connection.execute(NEWEST, (rowid,)).fetchall():
                question = _question(connection, str(row[0]))
        values = json.loads(row[2]) if row else None
    except (OSError, ValueError, TypeError, RecursionError, _database().Error) as error:
        raise Refused("crewai.state_unreadable", checkpoint=identifier, path=path, error=error) from error
    if not isinstance(values, dict):
        raise Refused("crewai.state_missing", checkpoint=identifier, path=path)
    edited = {**values, **(request["state"] or {}), "id": str(row[0])}
    return StoredState(path, str(row[0]), str(row[1]), edited, question)


def _stored_state(request: Request) -> StoredState:
    """Return the state of a stored copy, which viewer/engines/crewai/flow_states.py makes of its row."""
    body, source = read_original(request), request["checkpoint"]["source"]
    try:
        (root,), (node,) = body["entities"], body["event_record"]["nodes"].values()
        values, question = root["checkpoint_state"], root.get("pending_feedback")
        flow, method = str(root["id"]), str(node["event"]["method_name"])
    except (AttributeError, KeyError, TypeError, ValueError):
        values = None
    if not isinstance(values, dict):
        raise Refused("crewai.not_a_checkpoint", source=source)
    edited = {**values, **(request["state"] or {}), "id": flow}
    return StoredState(Path(source), flow, method, edited, question if isinstance(question, dict) else None)


def _question(connection: Any, flow: str) -> dict[str, Any] | None:
    try:
        found = connection.execute("SELECT context_json FROM pending_feedback WHERE flow_uuid = ?", (flow,))
        row = found.fetchone()
    except _database().OperationalError:
        # The store has no such table.
        return None
    asked = json.loads(row[0]) if row else None
    return asked if isinstance(asked, dict) else None


def _decoded(data: bytes) -> str:
    # Old versions wrote with the locale's encoding.
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252")


def _row(request: Request) -> str:
    store = Path(request["location"]["path"])
    if not store.exists():
        raise _missing(request)
    with opened(store) as connection:
        query = "SELECT json(data) FROM checkpoints WHERE id = ?"
        row = connection.execute(query, (request["checkpoint"]["id"],)).fetchone()
    if row is None:
        raise _missing(request)
    return str(row[0])


def _missing(request: Request) -> Refused:
    return Refused("crewai.checkpoint_deleted", checkpoint=request["checkpoint"]["id"])


def use_recent_sqlite() -> None:
    """Make the whole process use a SQLite with JSONB. Raises Refused if the environment has none.

    Without JSONB, the engine would only log that it failed to write checkpoints.
    Modules that write to a store import ``sqlite3`` at their top, so they are imported after this.
    """
    if sqlite3.sqlite_version_info >= MIN_SQLITE:
        return
    try:
        recent: Any = importlib.import_module("pysqlite3")
    except ImportError:
        recent = None
    if recent is None or recent.sqlite_version_info < MIN_SQLITE:
        raise Refused("crewai.sqlite_too_old", version=sqlite3.sqlite_version, python=sys.executable)
    sys.modules["sqlite3"] = recent
    sys.modules["sqlite3.dbapi2"] = recent.dbapi2


def refuse_other_location(request: Request) -> None:
    """Raise Refused unless the location is still what a person chose.

    If its path has become a link, the engine would write elsewhere; if it is another database, the engine
    would create its table there.
    """
    path = Path(request["location"]["path"])
    if path.resolve() != path:
        raise Refused("crewai.location_is_link", path=path, place=path.resolve())
    if request["location"]["store_kind"] != "sqlite" or not path.exists() or not path.stat().st_size:
        return
    try:
        with opened(path) as connection:
            named = connection.execute("SELECT type FROM sqlite_master WHERE name = 'checkpoints'").fetchall()
    except (OSError, _database().Error) as error:
        raise Refused("crewai.store_unreadable", path=path, error=error) from error
    if [tuple(one) for one in named] != [("table",)]:
        raise Refused("crewai.foreign_database", path=path)


def opened(store: Path) -> Any:
    """Open a SQLite store for reading, without creating files. Raises OSError and sqlite3.Error.

    Returns a context manager that yields the connection and closes it.
    """
    with open(store, "rb") as file:
        is_in_wal_mode = file.read(WRITE_VERSION.stop)[WRITE_VERSION] == IN_WAL_MODE
    # A store in WAL mode without a log has no writer, and opening it must not create a log.
    is_immutable = is_in_wal_mode and not Path(f"{store}-wal").exists()
    options = "mode=ro&immutable=1" if is_immutable else "mode=ro"
    return closing(
        _database().connect(f"file:{quote(os.fsencode(store))}?{options}", uri=True, timeout=LOCK_SECONDS)
    )


def _database() -> Any:
    """Return the sqlite3 module that the process uses, which may not be the one imported above."""
    return sys.modules["sqlite3"]


def root_of(body: Mapping[str, Any], kind: str) -> Entity:
    """Return the root entity: the first of this kind that is not an agent's executor. Raises Refused."""
    for entity in body["entities"]:
        if isinstance(entity, dict) and entity.get("entity_type") == kind and not entity.get("executor_type"):
            return entity
    raise Refused(MISSING[kind])


def edit_crew(crew: Entity, request: Request) -> None:
    """Edit or remove the outputs of the crew's tasks. Raises Refused if the plan or an edit does not fit."""
    tasks = dicts_in(crew.get("tasks"))
    planned = [step["task"] for step in request["steps"]]
    if planned and planned != [str(task.get("id")) for task in tasks]:
        raise Refused("crewai.plan_outdated")
    again = {step["task"] for step in request["steps"] if step["action"] == "again"}
    for position, task in enumerate(tasks, 1):
        edit = request["outputs"].get(str(task.get("id")))
        if edit is not None:
            _edit_output(task, edit, position)
        elif str(task.get("id")) in again:
            task["output"] = None


def _edit_output(task: Entity, edit: OutputEdit, position: int) -> None:
    """Change the text, the JSON value and the model of an output: readers use any of the three."""
    output = task.get("output")
    if not isinstance(output, dict):
        raise Refused("crewai.output_of_unfinished_task", position=position)
    is_json = output.get("json_dict") is not None or output.get("pydantic") is not None
    is_json = is_json or output.get("output_format") in {"json", "pydantic"} or "json" in edit
    if not is_json:
        output["raw"] = edit["text"]
    else:
        value = edit["json"] if "json" in edit else _parsed(edit["text"], position)
        output["raw"] = json.dumps(value, ensure_ascii=False) if "json" in edit else edit["text"]
        for name in ("json_dict", "pydantic"):
            if output.get(name) is not None:
                output[name] = value
    # These messages led to the output before the edit.
    output["messages"] = []


def _parsed(text: str, position: int) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Refused("crewai.output_not_json", position=position, error=error) from error
    if not isinstance(value, dict):
        raise Refused("crewai.output_not_json_object", position=position)
    return value


def edit_state(flow: Entity, request: Request) -> None:
    """Set the edited fields of the flow's state."""
    if request["state"] is not None:
        flow["checkpoint_state"] = {**(flow.get("checkpoint_state") or {}), **request["state"]}


# The checkpoints that this run writes.
#
# An engine creates missing folders. If a location is renamed or replaced during a run, the engine would
# silently create another one at the old path.


StoreKind = Literal["json", "sqlite"]
# Seconds to wait for a writer that has locked the store, before a checkpoint is left in it.
PRUNING_LOCK_SECONDS = 30


class Moved(OSError):
    """The location was renamed, replaced or removed since the run began to write to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ESTALE, "the location was renamed, replaced or removed", str(path))


class Pin:
    """A folder or file that is held open until the process exits, so that its inode number is not reused.

    It is never closed: closing a database's file would release the locks that SQLite holds on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Open what is at the path, if anything, and hold it open."""
        if self._descriptor is None:
            with suppress(FileNotFoundError):
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def check(self) -> None:
        """Raise Moved if something else, or nothing, is at the path of what is held."""
        if self._descriptor is None:
            return
        try:
            present = self.path.stat()
        except FileNotFoundError:
            raise Moved(self.path) from None
        held = os.fstat(self._descriptor)
        if (present.st_dev, present.st_ino) != (held.st_dev, held.st_ino):
            raise Moved(self.path)


class Pins:
    """The locations that one run writes to: its own, and those of the runs inside it."""

    def __init__(self) -> None:
        self._pins: dict[str, list[Pin]] = {}

    def hold(self, location: str, is_folder: bool) -> None:
        """Hold a location, and for a file also its folder. What is missing is held at the next call."""
        if location not in self._pins:
            path = Path(location).absolute()
            self._pins[location] = [Pin(path)] if is_folder else [Pin(path.parent), Pin(path)]
        for pin in self._pins[location]:
            pin.hold()

    def check(self, location: str) -> None:
        """Raise Moved if the location is no longer the one that is held."""
        for pin in self._pins.get(location, []):
            pin.check()


class Written(NamedTuple):
    """A checkpoint that this run wrote.

    ``path`` is a file's path or ``store.db#id``. ``mark`` changes if the file or row is replaced.
    """

    path: str
    mark: str


def written(path: str, store_kind: StoreKind) -> Written:
    """Return the checkpoint at this path, with its mark. Raises OSError, sqlite3.Error."""
    return Written(path, _mark_in_store(path) if store_kind == "sqlite" else _mark_of_file(path))


def delete(one: Written, store_kind: StoreKind) -> bool:
    """Delete a checkpoint. Return False, and keep it, if it was replaced or changed.

    A missing checkpoint counts as deleted. Raises OSError, sqlite3.Error.
    """
    if store_kind == "sqlite":
        return _delete_row(one)
    with suppress(FileNotFoundError):
        if _mark_of_file(one.path) != one.mark:
            return False
        Path(one.path).unlink()
    return True


def _mark_of_file(path: str) -> str:
    # The status of the entry itself, not of what a link points to.
    found = os.lstat(path)
    kind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return f"{kind} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _delete_row(one: Written) -> bool:
    store, _, identifier = one.path.rpartition("#")
    if not Path(store).exists():
        return True
    with closing(_opened_for_writing(store)) as connection:
        # No other process changes the row between the check and the deletion.
        connection.execute("BEGIN IMMEDIATE")
        mark = _mark_of_row(connection, identifier)
        if mark not in ("", one.mark):
            connection.execute("ROLLBACK")
            return False
        connection.execute("DELETE FROM checkpoints WHERE id = ?", (identifier,))
        connection.execute("COMMIT")
    return True


def _mark_in_store(path: str) -> str:
    store, _, identifier = path.rpartition("#")
    with closing(_opened_for_writing(store)) as connection:
        return _mark_of_row(connection, identifier)


def _mark_of_row(connection: Any, identifier: str) -> str:
    """Return the row's mark, or an empty string if there is no row."""
    query = "SELECT rowid, created_at, CAST(data AS BLOB) FROM checkpoints WHERE id = ?"
    rows = connection.execute(query, (identifier,)).fetchall()
    return " ".join(f"{number} {at} {sha256(data or b'').hexdigest()}" for number, at, data in rows)


def _opened_for_writing(store: str) -> Any:
    """Return a connection that does not create a missing store."""
    uri = f"file:{quote(os.fsencode(store))}?mode=rw"
    return _database().connect(uri, uri=True, timeout=PRUNING_LOCK_SECONDS, isolation_level=None)
