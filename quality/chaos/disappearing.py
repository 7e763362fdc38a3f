"""Makes locations disappear, or impossible to open, for moments during imports.

Passes if no intact checkpoint is reported as broken or pruned, and everything is imported at the end.
"""

import itertools
import resource
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quality.fuzz.broken_files import SAMPLE, make_old
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

if TYPE_CHECKING:
    from viewer.models import Location

FILES, ROUNDS = 1_200, 6
STORE = SAMPLE.parents[3] / "1.14.1/cp.db"


@dataclass
class Found:
    """The results of the imports of one kind."""

    imports: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    unavailable: int = 0
    lost: int = 0
    missing: int = 0

    @property
    def holds(self) -> bool:
        return self.imports > 0 and not self.lost and not self.missing


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        found = tried(folder, FILES, ROUNDS)
    outcomes = ("not readable then", "files not available", "lost", "missing at the end")
    print_heading("what happens", "imports", *outcomes)
    for kind, one in found.items():
        print_row(kind, one.imports, one.unreadable.total(), one.unavailable, one.lost, one.missing)
    return 0 if all(one.holds for one in found.values()) else 1


def tried(folder: Path, files: int, rounds: int) -> dict[str, Found]:
    """Return the results of each disturbance during the first import of a folder and of a SQLite store."""
    found: dict[str, Found] = {}
    for name, happens in HAPPENINGS.items():
        for kind in ("folder", "store"):
            one = found[f"{name}, {kind}"] = Found()
            for number in range(rounds if kind == "store" else max(1, rounds // 3)):
                sample_folder = folder / f"{name} {kind} {number}"
                path, count = made(sample_folder, kind, files)
                import_while(path, count, happens, one)
                shutil.rmtree(sample_folder)
    return found


def made(sample_folder: Path, kind: str, files: int) -> tuple[Path, int]:
    """Create a location. Return it with its number of checkpoints."""
    sample_folder.mkdir()
    if kind == "store":
        return Path(shutil.copyfile(STORE, sample_folder / "store.db")), 3
    (sample_folder / "location/main").mkdir(parents=True)
    for number in range(files):
        (sample_folder / f"location/main/20261120T{number:06d}_{number:08x}.json").write_bytes(
            SAMPLE.read_bytes()
        )
    make_old(sample_folder / "location/main")
    return sample_folder / "location", files


def import_while(path: Path, count: int, happens: "Callable[[Path], object]", found: Found) -> None:
    """Import the location during the disturbance, and once afterwards."""
    from django.db import OperationalError

    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

    location = open_location(path)
    for _ in range(3):
        found.imports += 1
        try:
            with during_import(happens, path):
                summary = import_location(location)
        except OperationalError as error:
            # Forkline's own database could not be opened either.
            found.unreadable[str(error)] += 1
            continue
        found.unreadable += Counter([str(summary.read_error)] if summary.read_error else [])
        found.unavailable += len(summary.unavailable)
        found.lost += lost(location)
        # The next import only reads if the location's modification time differs.
        location.checkpoints.all().delete()
        location.problems.filter(kind="unavailable").delete()
    import_location(location)
    found.lost += lost(location)
    found.missing += count - location.checkpoints.filter(state="present").count()
    location.delete()


def lost(location: "Location") -> int:
    """Return the number of intact checkpoints that count as broken or pruned."""
    problems = location.problems.exclude(kind="unavailable").count()
    return problems + location.checkpoints.exclude(state="present").count()


@contextmanager
def during_import(happens: "Callable[[Path], object]", path: Path) -> Iterator[None]:
    """Repeat the disturbance until the block ends, then restore the location."""
    is_over = threading.Event()

    def again() -> None:
        for pause in itertools.cycle((0.001, 0.01, 0.05, 0.2)):
            if is_over.wait(pause):
                return
            happens(path)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def moved_away(path: Path) -> None:
    away = path.with_name("away")
    path.rename(away)
    time.sleep(0.02)
    away.rename(path)


def parent_moved_away(path: Path) -> None:
    moved_away(path.parent)


def few_descriptors(path: Path) -> None:
    """Lower the descriptor limit to what is open, so that the next open fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())), hard))
    try:
        time.sleep(0.02)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def readers_killed(path: Path) -> None:
    import psutil

    # Long enough for other processes to start.
    time.sleep(0.5)
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            # A test process has other children, which other tests use.
            if "host.reading.program" in " ".join(child.cmdline()):
                child.kill()


HAPPENINGS: dict[str, Callable[[Path], object]] = {
    "moved away and back": moved_away,
    "its folder moved away and back": parent_moved_away,
    "no descriptors left": few_descriptors,
    "readers killed": readers_killed,
}


if __name__ == "__main__":
    sys.exit(main())
