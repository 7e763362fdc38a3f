"""Writes checkpoints as an engine does: JSON files, not atomically, or rows of a SQLite store in WAL mode.

    python -m quality.chaos.writer <json|sqlite> <location> <sample> <ledger>

Writes until it is killed, but at most MAX_CHECKPOINTS. Appends each committed checkpoint to the ledger.
"""

import os
import random
import signal
import sys
import time
import uuid
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

sqlite3: Any = import_module("pysqlite3")

BUSY_SECONDS = 5
# Several times as many as a writer commits before it is killed. On a machine that is too busy to import them
# as fast as they are written, each import would otherwise take longer than the last one.
MAX_CHECKPOINTS = 40
INSERT = "INSERT INTO checkpoints VALUES (?, ?, NULL, 'main', jsonb(?))"


def main(provider: str, location: Path, sample: Path, ledger: Path) -> None:
    """Write checkpoints, and wait."""
    body = sample.read_text()
    write = write_file if provider == "json" else write_row
    notes = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _number in range(MAX_CHECKPOINTS):
        checkpoint_id = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}_{uuid.uuid4().hex[:8]}"
        try:
            write(location, checkpoint_id, body)
        except sqlite3.OperationalError as error:
            os.write(notes, f"refused {error}\n".encode())
            continue
        os.write(notes, f"committed {checkpoint_id}\n".encode())
        time.sleep(random.uniform(0.1, 0.4))
    signal.pause()


def write_file(location: Path, checkpoint_id: str, body: str) -> None:
    with open(location / "main" / f"{checkpoint_id}_p-none.json", "w") as file:
        half = len(body) // 2
        file.write(body[:half])
        file.flush()
        # Long enough for a kill or a read to happen between the halves.
        time.sleep(random.uniform(0, 0.05))
        file.write(body[half:])


def write_row(location: Path, checkpoint_id: str, body: str) -> None:
    with closing(sqlite3.connect(location, timeout=BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        with connection:
            connection.execute(INSERT, (checkpoint_id, checkpoint_id[:15], body))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
