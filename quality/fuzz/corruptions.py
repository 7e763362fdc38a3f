"""Ways to corrupt a SQLite store. Each function changes the file at a path at random."""

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

# The library that Forkline uses, which supports ``jsonb``.
sqlite3: Any = import_module("pysqlite3")
PAGE = 4096
# Replacements for the checkpoints table.
STRANGERS = (
    "CREATE VIEW checkpoints AS SELECT 'a' AS id, '{}' AS data",
    "CREATE VIEW checkpoints AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    " SELECT x AS id, '{}' AS data FROM n",
    "CREATE VIRTUAL TABLE checkpoints USING fts5(id, data)",
    "CREATE TABLE checkpoints (id TEXT, data TEXT AS (hex(zeroblob(400000000))) VIRTUAL)",
    "CREATE TABLE checkpoints (name TEXT)",
    "CREATE TABLE others (id TEXT, data TEXT); CREATE TRIGGER checkpoints AFTER INSERT ON others BEGIN"
    " DELETE FROM others; END",
)
KILLED = """
import os, pysqlite3
connection = pysqlite3.connect({path!r}, isolation_level=None)
connection.execute("PRAGMA journal_mode={mode}")
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN")
connection.execute("UPDATE checkpoints SET created_at = hex(zeroblob(3000))")
{commit}
os._exit(1)
"""

Damage = Callable[[Path, random.Random], None]


def flip(most: int) -> Damage:
    """Change up to this many bytes anywhere after the file header."""

    def damage(path: Path, chance: random.Random) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, most)):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
        path.write_bytes(data)

    return damage


def flip_head(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(16, 100)] = chance.randrange(256)
    path.write_bytes(data)


def tear(made: Callable[[bytes, random.Random], bytes]) -> Damage:
    """Replace one or two pages, but not the first, with older ones."""

    def damage(path: Path, chance: random.Random) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 1, 2))):
            at = PAGE * chance.randrange(1, len(data) // PAGE)
            data[at : at + PAGE] = made(bytes(data), chance)
        path.write_bytes(data)

    return damage


def half_page(data: bytes, chance: random.Random) -> bytes:
    at = PAGE * chance.randrange(1, len(data) // PAGE)
    return data[at : at + PAGE // 2] + bytes(PAGE // 2)


def other_page(data: bytes, chance: random.Random) -> bytes:
    at = PAGE * chance.randrange(len(data) // PAGE)
    return data[at : at + PAGE]


def cut_short(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(16, len(data))])


def put_rows(path: Path, chance: random.Random) -> None:
    """Insert rows without a checkpoint or without a printable id."""
    data: Any = chance.choice((b"\xff" * 50, '{"entities": [', "[]", 17, None, b"", chance.randbytes(300)))
    key: Any = chance.choice((None, "", 5, "x\ny", "odd", "k" * 400))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO checkpoints (id, data) VALUES (?, ?)", (key, data))
        connection.commit()


def put_stranger(path: Path, chance: random.Random) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(chance.choice(STRANGERS))


def kill_writer(mode: str, commit: bool) -> Damage:
    """Leave a hot journal or a write-ahead log, as a killed writer does."""

    def damage(path: Path, chance: random.Random) -> None:
        end = 'connection.execute("COMMIT")' if commit else ""
        code = KILLED.format(path=str(path), mode=mode, commit=end)
        subprocess.run([sys.executable, "-c", code], check=False)

    return damage


def lose_log_index(path: Path, chance: random.Random) -> None:
    kill_writer("WAL", commit=True)(path, chance)
    Path(f"{path}-shm").unlink()
    if chance.random() < 0.5:
        log = Path(f"{path}-wal")
        log.write_bytes(log.read_bytes()[: chance.randrange(32, log.stat().st_size)])


FREQUENT: dict[str, Damage] = {
    "a byte flipped": flip(1),
    "up to 20 bytes flipped": flip(20),
    "up to 500 bytes flipped": flip(500),
    "header changed": flip_head,
    "pages of zeros": tear(lambda data, chance: bytes(PAGE)),
    "pages of noise": tear(lambda data, chance: chance.randbytes(PAGE)),
    "half pages": tear(half_page),
    "pages from elsewhere": tear(other_page),
    "cut short": cut_short,
    "rows without a checkpoint": put_rows,
    "no table of checkpoints": put_stranger,
}
# Rarer, because each starts a process.
RARE: dict[str, Damage] = {
    "a hot journal": kill_writer("DELETE", commit=False),
    "a killed writer's log": kill_writer("WAL", commit=True),
    "an unfinished log": kill_writer("WAL", commit=False),
    "a log without its index": lose_log_index,
}
EVERY = 25


def kind_of(number: int) -> str:
    """Return the kind of corruption for this number."""
    if number % EVERY == 0:
        return list(RARE)[number // EVERY % len(RARE)]
    return list(FREQUENT)[number % len(FREQUENT)]
