"""Reads stores of flow states whose rows are hostile: broken, huge or deep states, and pending feedback.

Each store has a healthy flow, which waits for feedback. Passes if it is read as such whatever the others
hold, if what is decoded can be shown, edited and planned, if no secret of a row is left, and if nothing takes
too long. Nothing that a row names is imported.
"""

import json
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard

from quality.tables import print_heading, print_row
from tests.flow_states import SCHEMA, add_state
from viewer.engines import engine_named
from viewer.engines.plan import EditRefused, Edits
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.redaction.values import decoded
from viewer.stores.protocol import Entry, LocationUnreadable, Packed, ReadLimits

STORES, ROWS, MAX_SECONDS = 60, 40, 20.0
LIMITS = ReadLimits(max_bytes=1_000_000, max_depth=100)
SECRET = "sk-proj-" + "a1B2" * 10
HEALTHY = {
    "flow_class": "desk.Desk",
    "method_name": "write",
    "message": "Is it good?",
    "emit": ["yes", "no"],
    "llm": {"model": "gpt", "api_key": SECRET},
}
TEXTS: tuple[Any, ...] = (
    *("", "a", "{", "[]", "null", "{}", '{"id": 1}', "\0", "\ud800".encode("utf-8", "surrogatepass")),
    *(b"\xff\xfe", 7, 1.5, None, "x" * 2_000_000, '{"a":' * 5000, "[" * 5000, "../../etc/passwd"),
    *("os.system", "__main__.Desk", "<script>alert(1)</script>", "{{ 7*7 }}", f'{{"password": "{SECRET}"}}'),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e300, "", "write", SECRET, "<script>", "x" * 100_000, [], {}, [[[[]]]]),
    *({"api_key": SECRET}, ["yes"] * 5000, [None, {}, "no"], {"emit": {"emit": "yes"}}, "os.system"),
)


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    counts, wrong, slowest = Counter[str](), list[str](), 0.0
    for seed in range(STORES):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            path = Path(folder) / "flow_states.db"
            wrong += [f"seed {seed}: {reason}" for reason in try_store(path, random.Random(seed), counts)]
            slowest = max(slowest, time.monotonic() - began)
    if slowest > MAX_SECONDS:
        wrong.append(f"a store took {slowest:.1f} s")
    kinds = ("read", "waiting", "problems", "planned", "refused")
    print_heading("flow states", "stores", *kinds, "slowest", "wrong")
    print_row("hostile rows", STORES, *(counts[one] for one in kinds), f"{slowest:.1f} s", len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


def try_store(path: Path, chance: random.Random, counts: Counter[str]) -> list[str]:
    """Write a store, and read it. Return what was wrong."""
    _write(path, chance)
    healthy, wrong = False, []
    try:
        with open_reader(LocationAddress(path, LIMITS)) as reader:
            entries = [one for one in reader.entries() if isinstance(one, Entry)]
            found = list(reader.read_all(entries, 1))
    except LocationUnreadable as error:
        return [f"the store was not read: {error}"]
    for one in found:
        if not isinstance(one, Packed):
            counts["problems"] += 1
            continue
        counts["read"] += 1
        counts["waiting"] += one.snapshot.trigger == "feedback_pending"
        body = zstandard.ZstdDecompressor().decompress(one.data)
        if SECRET.encode() in body:
            wrong.append(f"row {one.key} holds the secret")
        wrong += _used(decoded(body), chance, counts)
        healthy |= (one.snapshot.run_key, one.snapshot.trigger) == ("healthy", "feedback_pending")
    return wrong if healthy else [*wrong, "the healthy flow does not wait"]


def _write(path: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for number in range(ROWS):
            flow = chance.choice(("one", "two", number, chance.choice(TEXTS)))
            state = chance.choice((chance.choice(TEXTS), json.dumps({"id": "one", "note": SECRET})))
            row = (flow, chance.choice(TEXTS), chance.choice(TEXTS), state)
            insert = "INSERT OR IGNORE INTO flow_states (flow_uuid, method_name, timestamp, state_json)"
            connection.execute(f"{insert} VALUES (?, ?, ?, ?)", row)
            context = {name: chance.choice((value, *VALUES)) for name, value in HEALTHY.items()}
            context |= {"method_output": chance.choice(VALUES), "metadata": chance.choice(VALUES)}
            asked = chance.choice((chance.choice(TEXTS), json.dumps(context)))
            _ask(connection, flow, asked)
        add_state(connection, "healthy", "choose", {"id": "healthy"})
        add_state(connection, "healthy", "write", {"id": "healthy", "token": SECRET})
        _ask(connection, "healthy", json.dumps(HEALTHY))
        connection.commit()


def _ask(connection: sqlite3.Connection, flow: Any, context: Any) -> None:
    insert = "INSERT OR IGNORE INTO pending_feedback (flow_uuid, context_json, state_json, created_at)"
    connection.execute(f"{insert} VALUES (?, ?, '{{}}', '')", (flow, context))


def _used(body: Any, chance: random.Random, counts: Counter[str]) -> Iterator[str]:
    """Do with a decoded state what pages and commands do. Yield what was wrong."""
    engine = engine_named("crewai")
    contents = engine.contents_of(body)
    shown = engine.editable(contents)
    if SECRET in repr(shown):
        yield "the form holds the secret"
    engine.info(contents)
    engine.outlook(contents, None)
    answer = chance.choice((*VALUES, "yes", "no\nbecause"))
    for is_fork in (True, False):
        try:
            engine.plan(
                contents, Edits(answers={"": answer} if shown.questions else {}), None, is_fork=is_fork
            )
            counts["planned"] += 1
        except EditRefused:
            counts["refused"] += 1


if __name__ == "__main__":
    sys.exit(main())
