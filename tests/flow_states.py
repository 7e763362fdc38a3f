"""Stores of flow states, with the tables of CrewAI's ``SQLiteFlowPersistence``."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMA = """
    CREATE TABLE flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL,
        method_name TEXT NOT NULL, timestamp DATETIME NOT NULL, state_json TEXT NOT NULL);
    CREATE INDEX idx_flow_states_uuid ON flow_states(flow_uuid);
    CREATE TABLE pending_feedback (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL UNIQUE,
        context_json TEXT NOT NULL, state_json TEXT NOT NULL, created_at DATETIME NOT NULL);
"""


def states_at(path: Path) -> Path:
    """Write a store with two flows of three states each, interleaved."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for number, method in enumerate(("choose", "write", "check")):
            for flow in ("first", "second"):
                add_state(connection, flow, method, {"id": flow, "topic": "bees", "rounds": number})
        connection.commit()
    return path


def add_state(connection: sqlite3.Connection, flow: str, method: str, state: dict[str, Any] | str) -> None:
    """Add a state, as a minute after the last one."""
    (count,) = connection.execute("SELECT count(*) FROM flow_states").fetchone()
    text = state if isinstance(state, str) else json.dumps(state)
    connection.execute(
        "INSERT INTO flow_states (flow_uuid, method_name, timestamp, state_json) VALUES (?, ?, ?, ?)",
        (flow, method, f"2026-11-20T10:{count:02}:00.123456+00:00", text),
    )
