"""Kills eight writers 500 times while their location is imported.

Passes if no committed checkpoint is missing five seconds after the last kill, no file is reported as broken
while it is being written, and no writer finds its store locked.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

if TYPE_CHECKING:
    from viewer.models import Location

sqlite3: Any = import_module("pysqlite3")

SAMPLE = next((ROOT / "tests/recorded_stores/1.15.30/json/main").glob("*.json"))
WRITERS, KILLS = 8, 250
TABLE = (
    "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, parent_id TEXT, branch TEXT, data BLOB)"
)


@dataclass
class Found:
    """The results of one location."""

    provider: str
    kills: int = 0
    imports: int = 0
    committed: int = 0
    missing: int = 0
    called_broken: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    @property
    def holds(self) -> bool:
        return self.committed > 0 and not (self.missing or self.called_broken or self.refused)


def main() -> int:
    """Print a table for both kinds of store. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        results = [tried(provider, folder) for provider in ("json", "sqlite")]
    print_heading("writers", "kills", "imports", "committed", "missing", "called broken", "refused")
    for one in results:
        counts = (one.kills, one.imports, one.committed, one.missing, one.called_broken.total(), one.refused)
        print_row(f"{WRITERS} into {one.provider}", *counts)
    return 0 if all(one.holds for one in results) else 1


def tried(provider: str, folder: Path) -> Found:
    """Kill the writers of a new location while it is imported repeatedly."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

    path = made(provider, folder)
    location = open_location(path)
    found = Found(provider)
    ledgers = [folder / f"{provider}-{number}.txt" for number in range(WRITERS)]
    writers = [started(provider, path, ledger) for ledger in ledgers]
    while found.kills < KILLS:
        # About as long as a few writes take.
        time.sleep(random.uniform(0, 0.4))
        number = random.randrange(WRITERS)
        writers[number].send_signal(signal.SIGKILL)
        writers[number].wait()
        found.kills += 1
        writers[number] = started(provider, path, ledgers[number])
        import_location(location)
        found.imports += 1
        note_broken(location, found)
    for writer in writers:
        writer.kill()
        writer.wait()
    import_until_complete(location, ledgers, found)
    return found


def made(provider: str, folder: Path) -> Path:
    path = folder / ("checkpoints" if provider == "json" else "checkpoints.db")
    if provider == "json":
        (path / "main").mkdir(parents=True)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(TABLE)
    return path


def started(provider: str, path: Path, ledger: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "quality.chaos.writer", provider, str(path), str(SAMPLE), str(ledger)]
    return subprocess.Popen(command, cwd=ROOT)


def note_broken(location: "Location", found: Found) -> None:
    """Count files that were reported as broken although they had just changed."""
    now = time.time()
    for problem in location.problems.filter(kind="broken"):
        file = Path(location.path) / problem.source_key
        if file.exists() and now - file.stat().st_mtime < 1:
            found.called_broken[str(problem.reason)] += 1


def import_until_complete(location: "Location", ledgers: list[Path], found: Found) -> None:
    """Import for five seconds, until everything committed is found."""
    from viewer.host.locations.importing import import_location

    lines = [line for ledger in ledgers for line in ledger.read_text().splitlines()]
    committed = {line.split()[1] for line in lines if line.startswith("committed ")}
    found.refused = sum(line.startswith("refused ") for line in lines)
    found.committed = len(committed)
    until = time.monotonic() + 5
    while committed and time.monotonic() < until:
        import_location(location)
        committed -= set(location.checkpoints.values_list("checkpoint_id", flat=True))
    found.missing = len(committed)


if __name__ == "__main__":
    sys.exit(main())
