"""Reads five thousand corrupt SQLite files.

A row counts as readable if SQLite returns it when queried alone. Passes if 85 % of these rows are read, no
call takes longer than a second, and every store and its folder are unchanged.
"""

import json
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from quality.fuzz.broken_files import SAMPLE
from quality.fuzz.corruptions import FREQUENT, RARE, kind_of, sqlite3
from quality.tables import print_heading, print_row
from tests.real_stores import hashes_below

STORES, ROWS, SEED = 5_000, 40, 20261120
LEAST_SHARE, MAX_SECONDS = 0.85, 1.0


@dataclass
class Found:
    """The results of one kind of corruption."""

    stores: int = 0
    readable: int = 0
    saved: int = 0
    refused: int = 0
    slowest: float = 0.0
    changed: int = 0

    @property
    def share(self) -> float:
        return self.saved / self.readable if self.readable else 1.0

    @property
    def holds(self) -> bool:
        return self.share >= LEAST_SHARE and self.slowest <= MAX_SECONDS and not self.changed


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    # Replaces Python's SQLite with a newer one.
    import_module("checkpoint_site")
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder:
        found = tried(Path(folder))
    rows = ("rows readable", "of them read", "refused whole")
    print_heading("damage", "stores", *rows, "slowest call", "changed")
    for kind, one in found.items():
        share = f"{one.share:.1%}" if one.readable else "-"
        slowest = f"{one.slowest * 1000:.0f} ms"
        print_row(kind, one.stores, one.readable, share, one.refused, slowest, one.changed)
    return 0 if all(one.holds for one in found.values()) else 1


def tried(folder: Path) -> dict[str, Found]:
    """Corrupt a store in every way, repeatedly, and read it."""
    store = folder / "whole.db"
    make_store(store)
    whole, chance = store.read_bytes(), random.Random(SEED)
    found: dict[str, Found] = defaultdict(Found)
    for number in range(STORES):
        kind = kind_of(number)
        sample_folder = folder / "damaged"
        sample_folder.mkdir()
        path = sample_folder / "store.db"
        path.write_bytes(whole)
        (FREQUENT | RARE)[kind](path, chance)
        check(path, found[kind])
        shutil.rmtree(sample_folder)
    return found


def make_store(path: Path) -> None:
    """Create rows that span several pages, as JSONB and as text."""
    body = json.loads(SAMPLE.read_text())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, parent_id TEXT, branch, data)"
        )
        for number in range(ROWS):
            text = json.dumps(body | {"filler": "x" * (number * 150)})
            data = "jsonb(?)" if number % 2 else "?"
            row = (f"20261120T0000{number:02d}_{number:08x}", "", None, "main", text)
            connection.execute(f"INSERT INTO checkpoints VALUES (?, ?, ?, ?, {data})", row)
        connection.commit()


def check(path: Path, found: Found) -> None:
    """Read the store and compare with the readable rows."""
    before = hashes_below(path.parent)
    read = read_rows(path, found)
    found.changed += hashes_below(path.parent) != before
    readable = readable_rows(path)
    found.stores += 1
    found.readable += len(readable)
    found.saved += len(readable & read)


def read_rows(path: Path, found: Found) -> set[str]:
    """Return the ids of the rows that Forkline reads."""
    from quality.local_stores import store_at
    from viewer.host.reading.snapshots import read_packed
    from viewer.stores.protocol import Entry, LocationUnreadable, Packed

    read: set[str] = set()

    try:
        with timed(found, store_at, path) as store:
            for entry in timed(found, list, store.entries()):
                is_row = isinstance(entry, Entry)
                if is_row and isinstance(timed(found, read_packed, store, entry), Packed):
                    read.add(entry.key)
    except LocationUnreadable:
        found.refused += 1
    return read


def timed(found: Found, call: Callable[..., Any], *values: Any) -> Any:
    """Return the result of the call, and record its duration if it is the longest."""
    started = time.monotonic()
    try:
        return call(*values)
    finally:
        found.slowest = max(found.slowest, time.monotonic() - started)


def readable_rows(path: Path) -> set[str]:
    """Return the ids of the rows that SQLite returns when each is queried alone, from a copy."""
    if Path(f"{path}-journal").exists():
        # The file may hold pages of an unfinished transaction. They are only valid after a rollback.
        return set()
    copy = path.with_name("copy.db")
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    rows: set[str] = set()
    with suppress(sqlite3.Error, UnicodeError), closing(sqlite3.connect(copy)) as connection:
        if connection.execute("SELECT type FROM sqlite_schema WHERE name = 'checkpoints'").fetchall() != [
            ("table",)
        ]:
            return rows
        for rowid in range(1, ROWS + 1):
            with suppress(sqlite3.Error, UnicodeError, ValueError):
                rows |= whole_row(connection, rowid)
    return rows


def whole_row(connection: Any, rowid: int) -> set[str]:
    statement = "SELECT id, json(data) FROM checkpoints WHERE rowid = ?"
    found = connection.execute(statement, (rowid,)).fetchall()
    return {key for key, data in found if isinstance(key, str) and isinstance(json.loads(data or "0"), dict)}


if __name__ == "__main__":
    sys.exit(main())
