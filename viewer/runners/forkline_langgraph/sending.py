"""Writes what a run from a checkpoint needs of its store to a new SQLite file, for another host.

Nothing is loaded, and the store is only read. The checkpoint is copied with its writes, the subgraphs that it
continues, and its ancestors if a ``DeltaChannel`` stores only changes.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from forkline_langgraph import checkpoints, scratch_store
from forkline_langgraph.checkpoints import CheckpointKey, Source
from forkline_langgraph.pruning import DELTA_MARKS
from forkline_langgraph.saver_reader import TABLES
from forkline_runner.messages import Refused

_KEYS = (
    "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints"
    " UNION SELECT thread_id, checkpoint_ns, checkpoint_id FROM writes"
)
# The order in which the engine applies the changes of a ``DeltaChannel``. Old versions have no such column.
TASK_PATH = "ALTER TABLE writes ADD COLUMN task_path TEXT NOT NULL DEFAULT ''"
# The most bytes of the file, and those of a page of SQLite.
MAX_BYTES, PAGE_BYTES = 32 * 1024**2, 4096
SQLITE_FULL = 13


def written(request: Any) -> dict[str, int]:
    """Write the file of a request. Return how many checkpoints it has. Raises Refused."""
    store, target = Path(request["store"]), Path(request["target"])
    asked: Any = {"checkpoint": {"id": request["id"], "source": f"{store}#{request['key']}"}}
    with (
        tempfile.TemporaryDirectory() as scratch,
        closing(sqlite3.connect(target)) as file,
        checkpoints.opened(store, Path(scratch)) as source,
    ):
        for statement in (*TABLES, TASK_PATH):
            file.execute(statement)
        file.execute(f"PRAGMA max_page_count = {MAX_BYTES // PAGE_BYTES}")
        address = checkpoints.address_of(source, asked)
        if address.namespace:
            address = checkpoints.caller_of(source, address)
        try:
            _fill(source, file, address)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", SQLITE_FULL) == SQLITE_FULL:
                raise Refused("langgraph.too_large_to_send", most=MAX_BYTES // 1024**2) from error
            raise
        return {"checkpoints": len(file.execute(_KEYS).fetchall())}


def _fill(source: Source, file: sqlite3.Connection, address: CheckpointKey) -> None:
    body = source.body(address)
    metadata = json.loads((body and body.metadata) or b"{}")
    # Only an update by a person may lack the mark of changes.
    has_changes = bool(DELTA_MARKS & metadata.keys()) or metadata.get("source") == "update"
    scratch_store.fill(source, file, address, with_ancestors=has_changes, with_writes=True, with_memory=True)
    # What the host does not list as a checkpoint, it could not search for secrets.
    for key in file.execute(_KEYS).fetchall():
        scratch_store.copy_checkpoint(source, file, CheckpointKey(*key))
    file.commit()
