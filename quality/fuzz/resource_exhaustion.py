"""Imports files that are made to exhaust their reader.

Passes if no file takes more than five seconds of processor time and no process more than 500 MB, each file
becomes a checkpoint or a problem with a reason, an intact file next to it is imported each time, and a second
import does not read the refused files again.
"""

import json
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from quality.fuzz.broken_files import SAMPLE, make_old
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

MAX_SECONDS, MAX_MEGABYTES = 5.0, 500
MEGABYTE = 1024 * 1024


@dataclass
class Found:
    """The result of one file."""

    seconds: float = 0.0
    worked: float = 0.0
    megabytes: float = 0.0
    outcome: str = ""
    again: float = 0.0
    wrong: str = ""

    @property
    def holds(self) -> bool:
        return not self.wrong and self.worked <= MAX_SECONDS and self.megabytes <= MAX_MEGABYTES


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        found = tried(folder)
    print_heading("file", "processor", "clock", "again", "most memory", "what became of it", "wrong")
    for name, one in found.items():
        times = (f"{seconds:.2f} s" for seconds in (one.worked, one.seconds, one.again))
        print_row(name, *times, f"{one.megabytes:.0f} MB", one.outcome, one.wrong)
    print(f"{len(found)} files, {sum(one.holds for one in found.values())} within the limits.")
    return 0 if found and all(one.holds for one in found.values()) else 1


def tried(folder: Path, scale: float = 1.0) -> dict[str, Found]:
    """Import each file next to an intact one. ``scale`` shrinks the large ones."""
    found: dict[str, Found] = {}
    for name, data in texts(scale):
        sample_folder = folder / f"text {len(found)}"
        sample_folder.mkdir()
        (sample_folder / "20261120T000000_00000001.json").write_bytes(data)
        (sample_folder / "20261120T000001_00000002.json").write_bytes(SAMPLE.read_bytes())
        make_old(sample_folder)
        found[name] = visited(sample_folder, healthy=1)
        shutil.rmtree(sample_folder)
    for name, make in STORES.items():
        sample_folder = folder / f"store {len(found)}"
        sample_folder.mkdir()
        make(sample_folder / "store.db")
        found[name] = visited(sample_folder / "store.db", healthy=0)
        shutil.rmtree(sample_folder)
    return found


def texts(scale: float) -> Iterator[tuple[str, bytes]]:
    """Yield checkpoints whose state is expensive to parse."""

    def many(megabytes: float, part: bytes) -> bytes:
        return part * max(1, int(megabytes * scale * MEGABYTE) // len(part))

    begin = b"-----BEGIN A PRIVATE KEY-----"
    yield "8 MB of BEGIN lines", with_state(b'"' + many(8, begin + b"\\n") + b'"')
    yield "8 MB of BEGIN without ends of lines", with_state(b'"' + many(8, begin) + b'"')
    fields = b",".join(b'"a%d_password": "hunter%d"' % (one, one) for one in range(int(25_000 * scale)))
    yield "0.8 MB of password fields", with_state(b"{" + fields + b"}")
    yield "one text of 60 MB", with_state(b'"' + many(60, b"a") + b'"')
    yield "one text of 60 MB with blanks", with_state(b'"' + many(60, b"token for you ") + b'"')
    yield "one text of 60 MB of escapes", with_state(b'"' + many(60, b'\\"') + b'"')
    yield "one text of 30 MB of other alphabets", with_state(b'"' + many(30, "😀".encode()) + b'"')
    yield "64 MB of [", many(63.9, b"[")
    yield "64 MB of {}", with_state(b"[" + many(63, b"{},") + b"1]")
    yield "64 MB of [],", with_state(b"[" + many(63, b"[],") + b"1]")
    yield "64 MB of numbers", with_state(b"[" + many(63, b"1,") + b"1]")
    yield "64 MB of floats", with_state(b"[" + many(63, b"1e9,") + b"1]")
    yield "64 MB of names", with_state(b"{" + many(63, b'"a":1,') + b'"b":1}')
    yield "64 MB of quotes that do not end", with_state(b"1")[:-1] + many(63, b'"a\\')
    yield (
        "nested 199 levels, 300,000 times",
        with_state(b"[" + many(63, b"[" * 190 + b"]" * 190 + b",") + b"1]"),
    )
    yield "64 MB of blanks", many(63.9, b" ")
    yield "65 MB", with_state(b'"' + many(65, b"a") + b'"')


def with_state(text: bytes) -> bytes:
    """Return the sample with one more value in its state."""
    body = json.loads(SAMPLE.read_text())
    body["entities"][0]["checkpoint_state"] = "PLACE"
    return json.dumps(body).encode().replace(b'"PLACE"', b'{"a": ' + text + b"}", 1)


def store_of(*statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return make


def store_with(end: str, target: str) -> Callable[[Path], None]:
    """Create a store in WAL mode with a link next to it, or with a sparse log of this size in bytes."""

    def make(path: Path) -> None:
        shutil.copyfile(SAMPLE.parents[3] / "1.14.1/cp.db", path)
        neighbour = Path(f"{path}{end}")
        if target.isdigit():
            neighbour.touch()
            os.truncate(neighbour, int(target))
        elif target == "pipe":
            os.mkfifo(neighbour)
        else:
            neighbour.symlink_to(target)

    return make


_TABLE = "CREATE TABLE checkpoints (id TEXT, created_at TEXT, data)"
_MANY = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {})"
_ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, '{}' AS data FROM n"
)


def many_rows(count: int) -> Callable[[Path], None]:
    return store_of(
        _TABLE, f"INSERT INTO checkpoints {_MANY.format(count)} SELECT 'id' || x, '', '{{' FROM n"
    )


STORES: dict[str, Callable[[Path], None]] = {
    "a generated column of gigabytes": store_of(
        "CREATE TABLE checkpoints (id TEXT, data TEXT AS (hex(zeroblob(400000000))) VIRTUAL)",
        "INSERT INTO checkpoints (id) VALUES ('20261120T000000_00000001')",
    ),
    "a generated column named rowid": store_of(
        "CREATE TABLE checkpoints (id TEXT, data, rowid AS (hex(zeroblob(400000000))) VIRTUAL)",
        "INSERT INTO checkpoints (id, data) VALUES ('20261120T000000_00000001', '{}')",
    ),
    "a generated column named branch": store_of(
        "CREATE TABLE checkpoints (id TEXT, data, branch AS (hex(zeroblob(400000000))) VIRTUAL)",
        "INSERT INTO checkpoints (id, data) VALUES ('20261120T000000_00000001', '{}')",
    ),
    "rows of 400 MB of zeros": store_of(
        _TABLE, "INSERT INTO checkpoints VALUES ('20261120T000000_00000001', '', zeroblob(400000000))"
    ),
    "rows of 60 MB of zeros": store_of(
        _TABLE, f"INSERT INTO checkpoints {_MANY.format(3)} SELECT 'id' || x, '', zeroblob(60000000) FROM n"
    ),
    "ids of 50 MB": store_of(
        _TABLE, f"INSERT INTO checkpoints {_MANY.format(4)} SELECT hex(zeroblob(25000000)), '', '{{}}' FROM n"
    ),
    "two million rows": many_rows(2_000_000),
    "an endless view": store_of(f"CREATE VIEW checkpoints AS {_ENDLESS}"),
    "a virtual table": store_of("CREATE VIRTUAL TABLE checkpoints USING fts5(id, data)"),
    "a trigger of the table's name": store_of(
        _TABLE, "CREATE TRIGGER checkpoints AFTER INSERT ON checkpoints BEGIN SELECT 1; END"
    ),
    "a log that is a link to /dev/zero": store_with("-wal", "/dev/zero"),
    "a log that is a link to /etc/shadow": store_with("-wal", "/etc/shadow"),
    "an index that is a link": store_with("-shm", "/dev/zero"),
    "a journal that is a pipe": store_with("-journal", "pipe"),
    "a log of 50 GB": store_with("-wal", "50000000000"),
    "a log of 900 MB": store_with("-wal", "900000000"),
}


def visited(path: Path, healthy: int) -> Found:
    """Import the file twice and compare with the expected result."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location
    from viewer.host.reading.pool import end_idle_readers
    from viewer.host_requests import UnknownLocation

    found = Found()
    end_idle_readers()
    location = summary = None
    with Watch() as watch:
        started, before = time.monotonic(), worked()
        try:
            location = open_location(path)
            summary = import_location(location)
        except UnknownLocation as error:
            found.outcome = f"not added: {error}"
        end_idle_readers()
        found.seconds, found.worked = time.monotonic() - started, worked() - before
    found.megabytes = watch.peak / MEGABYTE
    found.worked -= watch.seconds
    if location is None or summary is None:
        return found
    kinds = sorted((problem.kind, str(problem.reason)) for problem in location.problems.all())
    started = time.monotonic()
    again = import_location(location)
    found.again = time.monotonic() - started
    reported = str(summary.read_error or "") or "; ".join(f"{kind}: {reason}" for kind, reason in kinds[:1])
    found.outcome = reported or f"{summary.added - healthy} read"
    if location.checkpoints.count() < healthy or (kinds and not kinds[0][1]):
        found.wrong = "a neighbour was lost"
    is_complete = all(kind != "writing" for kind, _reason in kinds)
    if (again.read and is_complete) or (found.again > 2 and again.read_error):
        found.wrong = "it was tried again"
    if any(kind == "unavailable" or "Forkline failed" in reason for kind, reason in kinds):
        found.wrong = "it was not judged by its content"
    location.delete()
    return found


def worked() -> float:
    """Return the processor time in seconds of this process and its finished children."""
    return sum(os.times()[:4])


def resident(process: str) -> int:
    """Return the memory of a process in bytes. Raises OSError and IndexError if it has ended."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Records the peak memory in bytes, and the time spent measuring.

    It is that of a child, or by how much this process has grown: the tests before may have made it large.
    """

    def __enter__(self) -> "Watch":
        self._is_over, self.peak, self.seconds = threading.Event(), 0, 0.0
        self._own = resident("self")
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        main = Path(f"/proc/self/task/{os.getpid()}/children")
        while not self._is_over.wait(0.01):
            self.peak = max(self.peak, resident("self") - self._own)
            for process in main.read_text().split():
                with suppress(OSError, IndexError):
                    self.peak = max(self.peak, resident(process))
        self.seconds = time.thread_time()


if __name__ == "__main__":
    sys.exit(main())
