"""Imports ten thousand malformed files next to intact ones.

Passes if every file becomes a checkpoint or a problem with a reason, none takes two seconds or raises an
unexpected error, the intact ones are imported, the location's page responds, and the folder is unchanged.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quality.fuzz.malformed_files import make_no_files, malformed_files
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, logged_in, temporary_data_folder
from tests.real_stores import hashes_below

if TYPE_CHECKING:
    from viewer.models import Location

# Small, so that every truncation of it is among the files.
SAMPLE = next((ROOT / "tests/recorded_stores/1.15.30/agent/main").glob("*b910f77f*.json"))
FILES, A_FOLDER, SEED = 10_000, 1_000, 20261120
MAX_SECONDS = 2


@dataclass
class Found:
    """The results. ``reasons`` are counted by kind of file."""

    reasons: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    read: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    import_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.files.total() >= FILES and not self.wrong and max(self.slowest.values()) < MAX_SECONDS


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        found = tried(folder)
    print_heading("files", "tried", "read", "listed with a reason", "slowest", "most frequent reason")
    for kind, count in found.files.items():
        reasons = found.reasons[kind]
        reason = reasons.most_common(1)[0][0] if reasons else ""
        slowest = f"{found.slowest[kind] * 1000:.0f} ms"
        print_row(kind, count, found.read[kind], reasons.total(), slowest, reason)
    print(
        f"{found.files.total()} files, imported in {found.import_seconds:.0f} s.", *found.wrong[:20], sep="\n"
    )
    return 0 if found.holds else 1


def tried(folder: Path) -> Found:
    """Create the files, a thousand per folder, and import each folder."""
    whole, found = SAMPLE.read_bytes(), Found()
    made = list(malformed_files(whole, FILES, SEED))
    for number, at in enumerate(range(0, len(made), A_FOLDER)):
        sample_folder = folder / f"files {number}"
        sample_folder.mkdir()
        kinds = {}
        for name, (kind, data) in enumerate(made[at : at + A_FOLDER]):
            (sample_folder / f"{name}.json").write_bytes(data)
            kinds[f"{name}.json"] = kind
        if number == 0:
            kinds |= make_no_files(sample_folder)
        for healthy in range(3):
            (sample_folder / f"20261120T00000{healthy}_{healthy:08d}.json").write_bytes(whole)
        import_all(sample_folder, kinds, found)
    return found


def import_all(sample_folder: Path, kinds: dict[str, str], found: Found) -> None:
    """Read each file alone, then import all of them."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

    before, names = hashes_below(sample_folder), sorted(path.name for path in sample_folder.iterdir())
    make_old(sample_folder)
    time_each(sample_folder, kinds, found)
    location, started = open_location(sample_folder), time.monotonic()
    import_location(location)
    found.import_seconds += time.monotonic() - started
    found.files.update(kinds.values())
    note(location, kinds, found)
    if (
        hashes_below(sample_folder) != before
        or sorted(path.name for path in sample_folder.iterdir()) != names
    ):
        found.wrong.append(f"{sample_folder.name} has changed")


def make_old(sample_folder: Path) -> None:
    """Make the files old, so that none counts as being written."""
    for path in sample_folder.iterdir():
        os.utime(path, (time.time() - 60,) * 2, follow_symlinks=False)


def time_each(sample_folder: Path, kinds: dict[str, str], found: Found) -> None:
    from quality.local_stores import store_at
    from viewer.host.locations.sources import read_limits
    from viewer.host.reading.snapshots import read_packed
    from viewer.stores.protocol import Entry

    with store_at(sample_folder, read_limits()) as store:
        for entry in store.entries():
            if isinstance(entry, Entry) and entry.key in kinds:
                started = time.monotonic()
                read_packed(store, entry)
                kind = kinds[entry.key]
                found.slowest[kind] = max(found.slowest[kind], time.monotonic() - started)


def note(location: "Location", kinds: dict[str, str], found: Found) -> None:
    """Compare the stored rows with the files."""
    read = set(location.checkpoints.values_list("source_key", flat=True))
    problems = {problem.source_key: str(problem.reason) for problem in location.problems.all()}
    found.read.update(kinds[key] for key in read & kinds.keys())
    for key, reason in problems.items():
        found.reasons[kinds.get(key, "healthy")][reason] += 1
        if not reason or "Forkline failed" in reason:
            found.wrong.append(f"{kinds.get(key)} {key}: {reason!r}")
    found.wrong += [f"{kinds[key]} {key} is not reported" for key in kinds.keys() - read - problems.keys()]
    if len(read - kinds.keys()) != 3:
        found.wrong.append(f"{location}: of three healthy ones {len(read - kinds.keys())} were read")
    client = logged_in(is_superuser=False)
    pages = [location.get_absolute_url(), *(run.get_absolute_url() for run in location.runs.all()[:5])]
    statuses = {client.get(page).status_code for page in pages}
    found.wrong += [f"{location}: {status}" for status in statuses - {200}]


if __name__ == "__main__":
    sys.exit(main())
