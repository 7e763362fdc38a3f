"""Restores the engine's state from a checkpoint's data, for the job's branch and location."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from crewai.events.base_events import set_emission_counter
from crewai.events.event_bus import crewai_event_bus
from crewai.events.event_context import restore_event_scope, set_last_event_id
from crewai.state.checkpoint_config import CheckpointConfig, CheckpointEventType
from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider
from crewai.state.runtime import RuntimeState
from pydantic import ValidationError

from forkline_crewai import checkpoints, effects
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import CheckpointSettings, Request

# The events that trigger checkpoints if an entity's own settings are unknown.
USUAL_EVENTS = {
    "crew": ["task_completed"],
    "flow": ["method_execution_finished"],
    "agent": ["lite_agent_execution_completed"],
}
# The engine's name for all events.
EVERY = "*"
INSERT_OLD = "INSERT INTO checkpoints (id, created_at, data) VALUES (?, ?, jsonb(?))"


def restored(body: Mapping[str, Any], entities: list[Any], request: Request, scratch: Path) -> Any:
    """Return the engine's state, whose next checkpoint is a child of this one, at the location.

    It is restored from a copy that has only these entities. Raises Refused if the engine cannot restore it.
    """
    record = effects.clean_record(body.get("event_record"))
    copy = _copied({**body, "entities": entities, "event_record": record}, request, scratch)
    try:
        state: Any = RuntimeState.from_checkpoint(
            CheckpointConfig(restore_from=str(copy)), context={"from_checkpoint": True}
        )
    except ValidationError as error:
        code = "crewai.cannot_restore"
        if not request["entry_point"]:
            code = "crewai.cannot_restore_without_entry_point"
        raise Refused(code, reasons=reasons_of(error)) from error
    finally:
        # An error here would hide why the engine refused.
        shutil.rmtree(scratch, ignore_errors=True)
    state._provider = provider_of(request)
    return state


def reasons_of(error: ValidationError) -> str:
    """Return what does not fit, without the values: they are the checkpoint's own texts."""
    return "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()[:3])


def _copied(body: Mapping[str, Any], request: Request, folder: Path) -> Path:
    """Write a copy for the engine to restore. Return its path.

    Its name contains the checkpoint's id. Only its owner can read it.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{request['checkpoint']['id']}_p-{body.get('parent_id') or 'none'}.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # Several times as fast as ``json.dump``, which encodes in Python.
        file.write(json.dumps(body))
    return path


def provider_of(request: Request) -> Any:
    """Return the engine's provider that writes to the location in its format."""
    if request["location"]["store_kind"] == "json":
        return JsonProvider()
    old = is_old_store(request["location"]["path"])
    return OldSqliteProvider() if old else SqliteProvider()


class OldSqliteProvider(SqliteProvider):  # type: ignore[misc]
    """Writes to a table without columns for parents and branches; a checkpoint's data contains them.

    The engine's own provider would fail, after the model calls were paid for. Forkline does not alter the
    table.
    """

    def checkpoint(self, data: str, location: str, **lineage: Any) -> str:
        """Add a row. Return the store's path and the row's id, ``store.db#id``. Raises sqlite3.Error."""
        written = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        identifier = f"{written}_{uuid.uuid4().hex[:8]}"
        with closing(sqlite3.connect(location, timeout=30)) as connection, connection:
            connection.execute(INSERT_OLD, (identifier, written, data))
        return f"{location}#{identifier}"

    async def acheckpoint(self, data: str, location: str, **lineage: Any) -> str:
        """Do the same as ``checkpoint``, for engines that write asynchronously."""
        return self.checkpoint(data, location)


def is_old_store(location: str) -> bool:
    """Return whether the store exists and its table has no columns for parents and branches."""
    if not Path(location).exists():
        return False
    with checkpoints.opened(Path(location)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'").fetchone():
            return False
        described = connection.execute("SELECT * FROM checkpoints LIMIT 0").description
    return not {column[0] for column in described} >= {"parent_id", "branch"}


def chosen_settings(request: Request) -> CheckpointSettings:
    """Return a person's checkpoint settings for a run: the events that trigger one, and how many to keep."""
    return (request.get("options") or {}).get("checkpoints") or {}


def settings_for(request: Request, *saved: Any) -> Any:
    """Return the engine's checkpoint settings, with the chosen events, else the saved or usual ones.

    The saved location was relative to another folder, and the saved pruning could delete the user's
    checkpoints: neither is restored. Raises Refused for a chosen event that this engine does not know.
    """
    chosen = chosen_settings(request).get("events") or []
    unknown = [event for event in chosen if event not in {EVERY, *get_args(CheckpointEventType)}]
    if unknown:
        raise Refused("crewai.unknown_checkpoint_events", unknown=", ".join(unknown))
    for settings in ({"on_events": chosen}, *saved, {"on_events": USUAL_EVENTS[request["entity"]]}):
        events = (
            settings.get("on_events") if isinstance(settings, dict) else getattr(settings, "on_events", None)
        )
        if not events:
            continue
        try:
            config: Any = CheckpointConfig(on_events=list(events), provider=provider_of(request))
        except ValidationError:
            continue  # events that this version of the engine does not know
        # Set afterwards: the constructor would rename a store without a suffix.
        config.location = request["location"]["path"]
        return config
    raise AssertionError("the usual events are known to every version")


def attach(state: Any, root: Any) -> None:
    """Make ``root`` the only entity of the state. Other entities register themselves when they run."""
    state.root = [root]
    crewai_event_bus.set_runtime_state(state)


def write_first(state: Any, request: Request, edited: bool) -> None:
    """Switch a fork to its branch and write its first checkpoint. A resume writes one only if ``edited``.

    The engine would write none before its next step, and none at all if nothing is left to run.
    """
    if request["kind"] == "fork":
        state.fork(request["branch"])
    if request["kind"] == "fork" or edited:
        state.checkpoint(request["location"]["path"])


@contextmanager
def one_scope() -> Iterator[None]:
    """Keep the engine's runtime state until the end of this block.

    Otherwise an executor that ends discards it, and the last checkpoint has no parent. Older engines always
    keep it.
    """
    if not hasattr(crewai_event_bus, "_enter_runtime_scope"):
        yield
        return
    outermost = crewai_event_bus._enter_runtime_scope()
    try:
        yield
    finally:
        crewai_event_bus._exit_runtime_scope(outermost)


def continue_numbering(events: list[dict[str, Any]], started: str) -> None:
    """Number new events after the recorded ones, as children of the last root event of type ``started``.

    The engine would number them from 1 again.
    """
    roots = [event for event in events if event.get("type") == started and not event.get("parent_event_id")]
    if roots and events:
        restore_event_scope(((str(roots[-1]["event_id"]), started),))
        set_last_event_id(str(events[-1]["event_id"]))
        set_emission_counter(int(events[-1].get("emission_sequence") or 0))


def events_in(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the recorded events, oldest first."""
    nodes = body.get("event_record", {}).get("nodes") if isinstance(body.get("event_record"), dict) else None
    events = [
        node["event"] for node in (nodes or {}).values() if isinstance(node, dict) and node.get("event")
    ]
    return sorted(events, key=lambda event: event.get("emission_sequence") or 0)
