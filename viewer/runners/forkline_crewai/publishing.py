"""Writes the states of a fork from its scratch store to the user's store, under a new id of the flow.

CrewAI's own persistence writes, in one transaction: after a crash, either nothing or everything was written.
A flow that has the same states already is left as it is, so nothing is written twice. No code of the project
runs.
"""

from __future__ import annotations

import inspect
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai.flow.persistence import SQLiteFlowPersistence

from forkline_crewai import original
from forkline_crewai.patches import persistence
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

# The method after which each state was stored, and the state.
States = list[tuple[str, dict[str, Any]]]
OF_FLOW = "SELECT method_name, state_json FROM flow_states WHERE flow_uuid = ? ORDER BY rowid"


def publish(request: Request, draft: Path, flow: str, reporter: Reporter) -> int:
    """Write the fork in this scratch store as a new flow. Return the number of written states.

    It is 0 if the flow has all of them already. Raises Refused, and then has written nothing.
    """
    states = [
        (method, {**state, "id": flow} if "id" in state else state) for method, state in _drafted(draft)
    ]
    path = writable_store(request)
    persistence.leave_existing_files()
    store: Any = SQLiteFlowPersistence(str(path))
    try:
        with persistence.in_one_transaction(store) as connection:
            found = _existing(connection, flow)
            if found is None:
                # A run in this process has redirected all states, as that of a fork on another host.
                save = inspect.unwrap(type(store).save_state)
                for method, state in states:
                    save(store, flow, method, state)
                found, written = _existing(connection, flow), len(states)
            else:
                written = 0
            # As texts, in which NaN is equal to itself.
            if json.dumps(found) != json.dumps(states):
                raise Refused("crewai.flow_exists", flow=flow)
    except (sqlite3.Error, OSError, TypeError, ValueError) as error:
        raise Refused("crewai.store_write_failed", path=path, error=error) from error
    reporter.write("published", thread=flow, into=request["options"]["into"], checkpoints=written)
    return written


def writable_store(request: Request) -> Path:
    """Return the location's store. Raises Refused if nothing can be published to it."""
    path = Path(request["location"]["path"])
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise Refused("crewai.store_not_writable", path=path)
    if not path.stat().st_size:
        # CrewAI would create its tables in it.
        raise Refused("crewai.store_write_failed", path=path, error="the file is empty")
    return path


def _drafted(path: Path) -> States:
    """Return the states in a scratch store. Raises Refused if it was deleted, or the flow waits."""
    if not path.exists():
        raise Refused("crewai.draft_deleted")
    try:
        with original.opened(path) as connection:
            if connection.execute("SELECT 1 FROM pending_feedback").fetchone():
                raise Refused("crewai.draft_waits")
            rows = connection.execute("SELECT method_name, state_json FROM flow_states ORDER BY rowid")
            return [(method, json.loads(state)) for method, state in rows]
    except (OSError, ValueError, sqlite3.Error) as error:
        raise Refused("crewai.state_unreadable", checkpoint=path.name, path=path, error=error) from error


def _existing(connection: sqlite3.Connection, flow: str) -> States | None:
    """Return the states of a flow in the store; None if no flow has this id. Raises Refused if it waits."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if ("pending_feedback",) in connection.execute(tables).fetchall():
        waits = connection.execute("SELECT 1 FROM pending_feedback WHERE flow_uuid = ?", (flow,))
        if waits.fetchone():
            raise Refused("crewai.flow_exists", flow=flow)
    with closing(connection.execute(OF_FLOW, (flow,))) as rows:
        return [(str(method), json.loads(state)) for method, state in rows] or None
