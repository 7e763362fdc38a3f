"""Restricts data folders with random modes that also hold links to other files.

Passes if all of Forkline's files are private afterwards, and nothing else has changed.
"""

import os
import random
import stat
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from quality.tables import print_heading, print_row

FOLDERS = 1_000
JOB = str(uuid.UUID(int=7))
OURS = (
    *("forkline.sqlite3", "forkline.sqlite3-wal", "forkline.sqlite3-shm", "secret_key", "worker.lock"),
    *(f"jobs/{JOB}/log.txt", f"jobs/{JOB}/scratch/copy.json", f"imports/{JOB}.lock"),
    *(f"preflight/{JOB}/log.txt", "preflight/slot-1.lock", "prewarm/1.request"),
    *("backups/forkline-1.sqlite3", "guard/1.json"),
)
THEIRS = (
    *("notes.txt", "uv.lock", "src/a.py", "jobs.csv", "jobs/mine.txt", "backups/a.zip", ".env", "prewarm/x"),
)


@dataclass
class Found:
    """Counts Forkline's files that are still ``open`` to others, and other files that were ``touched``."""

    folders: int = 0
    files: int = 0
    links: int = 0
    open: int = 0
    touched: int = 0


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    os.umask(0o022)
    chance, found = random.Random(5), Found()
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder:
        for number in range(FOLDERS):
            try_one(Path(folder) / str(number), chance, found)
    print_heading("data folders", "files", "links", "left open", "others' touched")
    print_row(found.folders, found.files, found.links, found.open, found.touched)
    return 1 if found.open or found.touched else 0


def try_one(folder: Path, chance: random.Random, found: Found) -> None:
    """Create a folder with random modes, restrict it, and compare."""
    from viewer.data_folder.permissions import restrict

    data, elsewhere = folder / "data", folder / "elsewhere"
    ours = {data / name for name in chance.sample(OURS, chance.randrange(1, len(OURS)))}
    theirs = {data / name for name in chance.sample(THEIRS, chance.randrange(len(THEIRS)))}
    theirs |= {elsewhere / "key"}
    for path in (*ours, *theirs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(chance.choice((0o600, 0o644, 0o666, 0o640, 0o444, 0o755, 0o000)))
    links = linked(data, elsewhere, chance, ours)
    for below, names, _files in os.walk(folder):
        for name in names:
            Path(below, name).chmod(chance.choice((0o700, 0o755, 0o777, 0o750)))
    before = {path: path.stat().st_mode for path in theirs}
    restrict(data, thorough=True)
    found.folders, found.files = found.folders + 1, found.files + len(ours) + len(theirs)
    found.links += links
    found.open += sum(stat.S_IMODE(path.stat().st_mode) & 0o077 != 0 for path in (data, *ours))
    found.touched += sum(path.stat().st_mode != mode for path, mode in before.items())


def linked(data: Path, elsewhere: Path, chance: random.Random, ours: set[Path]) -> int:
    """Replace some of Forkline's files with links to another file. Return their number."""
    count = 0
    for name in chance.sample(OURS, 3):
        path = data / name
        if path in ours or not path.parent.exists() or path.exists():
            continue
        make = chance.choice((path.symlink_to, path.hardlink_to))
        make(elsewhere / "key")
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
