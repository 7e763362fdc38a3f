"""Damages each column of each table in turn, and shows the rest on every page, export, link and command.

Each store has healthy rows and one damaged row: wide, deep, long, undecodable, or of another type. Passes if
nothing raises an error, no page is a 5xx, every healthy row is listed and read, and nothing takes too long.
"""

import contextlib
import io
import json
import logging
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import ormsgpack

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder
from tests.langgraph.databases import Database, checkpoint_id, extension, packed

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Checkpoint, Location, Run

MAX_SECONDS = 20.0
THREADS, STEPS = 4, 3
DAMAGED = "thread 0"


@dataclass
class Found:
    """The results of one store."""

    stores: int = 0
    visits: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


class Damage(NamedTuple):
    """What is stored instead of a value, and the SQL that stores it."""

    value: Any
    sql: str = "?"


def nested(levels: int) -> bytes:
    return b"\x91" * levels + b"\xc0"


def nested_extensions(levels: int, payload: bytes) -> bytes:
    value: Any = payload
    for _level in range(levels):
        value = extension(0, "builtins", "set", value)
    return ormsgpack.packb({"channel_values": {"value": value}})


def damages(scale: float = 1.0) -> dict[str, Damage]:
    """Every damage by its name. ``scale`` makes wide and long ones smaller."""
    wide, long, shown = int(3_000_000 * scale), int(500_000 * scale), int(10_000 * scale)
    channels: dict[str, Any] = {f"channel {number}": number for number in range(shown)}
    return {
        "NULL": Damage(None),
        "empty bytes": Damage(b""),
        "empty text": Damage(""),
        "wide MessagePack": Damage(packed({"w": [{}] * wide})),
        "wider MessagePack": Damage(packed({"w": [{}] * 2 * wide})),
        "wide within the limits": Damage(packed({"w": [{}] * shown})),
        "wide mapping": Damage(packed(channels, channel_versions=channels, versions_seen=channels)),
        "wide extensions": Damage(packed({"w": [ormsgpack.Ext(7, b"\x01")] * (wide // 3)})),
        "deep MessagePack": Damage(nested(100_000)),
        "deep extensions": Damage(nested_extensions(300, b"x")),
        "deep and long extensions": Damage(nested_extensions(150, b"x" * long)),
        "truncated MessagePack": Damage(packed({"value": "x" * 100})[:-50]),
        "a length beyond the end": Damage(b"\xdd\xff\xff\xff\xff"),
        "an invalid byte": Damage(b"\xc1"),
        "another shape": Damage(ormsgpack.packb([1, {"a": 2}])),
        "wrong types": Damage(packed({}, channel_values=[1], versions_seen="x", channel_versions=7)),
        "wrong versions": Damage(packed({"a": 1}, channel_versions={"a": {}}, versions_seen={"a": 3})),
        "wide JSON": Damage(b'{"w": [' + b"{}," * wide + b"1]}"),
        "JSON of many writes": Damage(
            json.dumps(
                {"source": "loop", "writes": channels, "parents": dict.fromkeys(channels, "")}
            ).encode()
        ),
        "deep JSON": Damage(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "truncated JSON": Damage(b'{"source": "loop", "step": 1'),
        "JSON of another shape": Damage(b"[]"),
        "JSON of other types": Damage(b'{"source": 1, "step": "x", "parents": [], "writes": 5}'),
        "a huge number": Damage(b'{"step": ' + b"9" * 4000 + b"}"),
        "a larger number": Damage(b'{"step": 1e999, "x": ' + b"9" * 100_000 + b"}"),
        "lone surrogates": Damage(b'{"source": "\\ud800", "x": "\\udfff"}'),
        "a long text": Damage("x" * long),
        "a long text with spaces": Damage("key password=" * (long // 13)),
        "text that is not UTF-8": Damage(b"\xff\xfe\x80 x", "CAST(? AS TEXT)"),
        "long text that is not UTF-8": Damage(b"\xff" * 10_000, "CAST(? AS TEXT)"),
        "text with control characters": Damage("a\nb\0c\x1b]0;x\x07\u202e"),
        "text with separators": Damage("a/b|c:d#e?f&g=h%20<b>\"'"),
        "a whole number": Damage(7),
        "a negative number": Damage(-(2**63)),
        "a floating-point number": Damage(1.5e300),
        "infinity": Damage(9e999),
        "bytes": Damage(bytes(range(256))),
    }


# Of these columns, which hold texts and numbers, only these damages are tried.
_LARGE = {"checkpoint", "metadata", "value"}
_SMALL = ("NULL", "empty", "a ", "long text", "text", "lone", "infinity", "bytes")
# The columns that a damage is put into. The others of a row stay whole.
COLUMNS = {
    "checkpoints": (
        *("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"),
        *("type", "checkpoint", "metadata"),
    ),
    "writes": (
        *("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path"),
        *("idx", "channel", "type", "value"),
    ),
}
# As the savers declare them, but without NOT NULL.
LOOSE_TABLES = """
    CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT DEFAULT '', checkpoint_id TEXT,
        parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT DEFAULT '', checkpoint_id TEXT,
        task_id TEXT, task_path TEXT DEFAULT '', idx INTEGER, channel TEXT, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def make_store(path: Path) -> None:
    """Create threads with a fork, a subgraph, messages, and a task that waits."""
    database = Database(path, LOOSE_TABLES)
    message = extension(
        5, "langchain_core.messages.ai", "AIMessage", {"content": "hello", "type": "ai", "id": "m1"}, "x"
    )
    with database.connection:
        database.connection.execute("BEGIN")
        for thread in range(THREADS):
            own = {"thread_id": f"thread {thread}"}
            for step in range(STEPS):
                body = packed(
                    {"value": f"value {step}", "messages": [message], "branch:to:node": None},
                    channel_versions={"value": step + 1, "branch:to:node": step + 2},
                    versions_seen={"node": {"branch:to:node": step + 1}},
                )
                database.add(step, body, **own)
                database.write(step, 0, "value", ormsgpack.packb(f"value {step + 1}"), **own)
            fork = {"parent_checkpoint_id": checkpoint_id(0), **own}
            database.add(STEPS, packed({"value": "fork"}), **fork)
            question = ormsgpack.packb([extension(2, "langgraph.types", "Interrupt", {"value": "Go on?"})])
            database.write(STEPS, -3, "__interrupt__", question, **own)
            inner = {"checkpoint_ns": "node:task-1", "parent_checkpoint_id": None, **own}
            database.add(STEPS + 1, packed({"value": "inner"}), **inner)
    database.connection.close()


def damaged_stores(folder: Path, scale: float = 1.0) -> Iterator[tuple[str, Path]]:
    """The path of a store for each column and damage. The next one replaces it."""
    whole = folder / "whole.db"
    make_store(whole)
    found = damages(scale)
    for table, columns in COLUMNS.items():
        for column in columns:
            for name, damage in found.items():
                if column not in _LARGE and not name.startswith(_SMALL):
                    continue
                path = folder / "damaged" / "store.db"
                shutil.rmtree(path.parent, ignore_errors=True)
                path.parent.mkdir()
                shutil.copyfile(whole, path)
                step = STEPS if table == "writes" and column in ("value", "channel") else STEPS - 1
                damage_row(path, f"{table} SET {column} = {damage.sql}", damage.value, step)
                yield f"{table}.{column}: {name}", path


def damage_row(path: Path, change: str, value: Any, step: int) -> None:
    """Change a row of the damaged thread. What the tables refuse stays as it was."""
    with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.Error):
        at = [value, DAMAGED, checkpoint_id(step)]
        connection.execute(f"UPDATE {change} WHERE thread_id = ? AND checkpoint_id = ?", at)
        connection.commit()


def damaged_runs(location: "Location") -> "list[Run]":
    """The damaged thread, and what a damaged id has become."""
    runs = list(location.runs.order_by("pk"))
    shown = [run for run in runs if run.key == DAMAGED] or runs[:1]
    damaged = [run for run in runs if not run.key.startswith("thread ")]
    return list(dict.fromkeys([*shown, *damaged]))


def visit_all(client: "Client", location: "Location", runs: "Sequence[Run]", found: Found, case: str) -> None:
    """Open every page, export, link and command about these runs."""
    from viewer.models import Run, ShareLink

    for run in runs:
        with measured(found, case, f"open {run.key[:20]}"):
            client.get(run.get_absolute_url())
        rows = list(Run.objects.get(pk=run.pk).checkpoints.order_by("row"))
        for address in addresses(run, rows, is_first=found.stores == 1):
            visit(client, address, found, case)
        for arguments in commands(location, run, rows):
            command(arguments, found, case)
    # The page of all links would grow with each store.
    ShareLink.objects.all().delete()


def addresses(run: "Run", rows: "list[Checkpoint]", *, is_first: bool) -> Iterator[str]:
    """Every address that a GET of a person opens, of a run and its checkpoints.

    The pages of no location in particular are opened for the first store of a column only.
    """
    from django.urls import reverse

    from viewer.engines import engine_of
    from viewer.presentation.comparison import COMPARISON_FORMATS
    from viewer.presentation.export import FORMATS
    from viewer.web.urls import urlpatterns

    tabs = engine_of(run.location).tab_order
    # The damaged row, its child, and the fork.
    shown = rows[STEPS - 1 : STEPS + 1]
    known = {"locations/": run.location.uid, "runs/": run.uid}
    for pattern in urlpatterns:
        route = str(pattern.pattern)
        start = next((one for one in known if route.startswith(f"{one}<uuid:uid>/")), "")
        if start:
            yield reverse(pattern.name or "", args=[known[start]])
        elif route.startswith("checkpoints/<int:pk>/"):
            rests = calls_of if "<slug:call>" in route else no_calls
            yield from (
                reverse(pattern.name or "", args=[row.pk, *rest]) for row in shown for rest in rests(row)
            )
        elif is_first and "<" not in route and not route.startswith("compare/"):
            yield reverse(pattern.name or "")
    for row in shown:
        for tab in (*tabs, "graph"):
            yield f"{run.get_absolute_url()}?{urlencode({'at': row.checkpoint_id, 'tab': tab})}"
    for name in FORMATS:
        yield f"{reverse('run-export', args=[run.uid])}?format={name}"
    compared = [f"{run.uid}/{row.checkpoint_id}" for row in rows[-4:]]
    sides = [("b" if number else "a", name) for number, name in enumerate(compared)]
    if sides:
        for name in ("", *COMPARISON_FORMATS):
            address = reverse("compare-export" if name else "compare")
            yield f"{address}?{urlencode([*sides, ('format', name), ('all', '1')])}"
        yield from shared_addresses(run, shown, sides)


def no_calls(row: "Checkpoint") -> list[list[str]]:
    """The rest of an address that names no call."""
    return [[]]


def calls_of(row: "Checkpoint") -> list[list[str]]:
    """The names of two calls of a checkpoint, and one that it does not have."""
    from viewer.host_requests import NotReadable
    from viewer.presentation.calls import recorded_calls_of

    names = ["nothing"]
    with contextlib.suppress(NotReadable):
        names += [call.name for call in recorded_calls_of(row)[:2]]
    return [[name] for name in names]


def shared_addresses(run: "Run", rows: "list[Checkpoint]", sides: list[tuple[str, str]]) -> Iterator[str]:
    """The pages of share links to the run, its newest checkpoints and their comparison."""
    from django.urls import reverse

    from viewer.models import ShareLink
    from viewer.presentation.share_links import Subject, find_shared, make_link
    from viewer.records.accounts import teammate

    targets = [("run", str(run.uid)), ("comparison", urlencode(sides))]
    targets += [("checkpoint", f"{run.uid}/{row.checkpoint_id}") for row in rows]
    for kind, target in targets:
        yield f"{reverse('share')}?{urlencode({'kind': kind, 'target': target})}"
        shared = find_shared(Subject(ShareLink.Kind(kind), target))
        if shared:
            _link, token = make_link(shared, teammate("maker", "run"), days=1, unfurls=True)
            for name in ("shared", "shared-rows", "shared-picture"):
                yield reverse(name, args=[token])
            for tab in ("messages", "writes", "next", "metadata") if kind == "checkpoint" else ():
                yield f"{reverse('shared', args=[token])}?tab={tab}"


def commands(location: "Location", run: "Run", rows: "list[Checkpoint]") -> Iterator[list[str]]:
    """Every reading command of the terminal about the run."""
    path = str(location.path)
    yield from (["list", path], ["list", path, "--json"], ["search", "value"])
    names = [row.target for row in rows]
    for name in names[STEPS - 1 : STEPS + 1]:
        yield from (["info", name], ["info", name, "--json"], ["info", name, "--graph", "dot"])
    for name in names[:1]:
        yield ["export", name, "--format", "json", "--output", "-"]
    if len(names) > 1:
        yield ["diff", names[-1], names[-2]]
        yield ["diff", names[0], names[-1], "--json"]


def visit(client: "Client", address: str, found: Found, case: str) -> None:
    """Open an address. It may be refused, but not fail."""
    with measured(found, case, address):
        response = client.get(address)
        if response.status_code >= 500:
            found.faults.append(f"{case}: {address}: {response.status_code}")


def command(arguments: list[str], found: Found, case: str) -> None:
    """Run a command. It may be refused, but not fail."""
    from django.core.management import CommandError, call_command

    out = io.StringIO()
    with measured(found, case, " ".join(arguments)[:80]), contextlib.redirect_stderr(out):
        with contextlib.suppress(CommandError, SystemExit), contextlib.redirect_stdout(out):
            call_command("checkpoints", *arguments, stdout=out, stderr=out)
        # As a terminal receives it.
        out.getvalue().encode()


@contextlib.contextmanager
def measured(found: Found, case: str, what: str) -> Iterator[None]:
    """Count a visit, its duration, and the error that it raises."""
    started = time.monotonic()
    found.visits += 1
    try:
        yield
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        short = re.sub(r"[0-9a-f-]{36}", "…", what)[:90]
        found.faults.append(f"{case}: {short}: {type(error).__name__} at {place}")
    finally:
        took = time.monotonic() - started
        found.slowest = max(found.slowest, took)
        if took > MAX_SECONDS:
            found.faults.append(f"{case}: {what[:90]}: {took:.1f} seconds")


def check_store(client: "Client", case: str, path: Path, found: Found) -> None:
    """Import a damaged store, open everything, and check that every other row is there."""
    from tests.imported import imported_location
    from viewer.host.locations.importing import import_location

    location = None
    found.stores += 1
    with measured(found, case, "import"):
        location = imported_location(path)
        summary = import_location(location)
        if summary.read_error:
            found.faults.append(f"{case}: not imported: {summary.read_error.code}")
    if location is None:
        return
    visit_all(client, location, damaged_runs(location), found, case)
    for number in range(1, THREADS):
        check_healthy(location, f"thread {number}", found, case)
    check_damaged(location, found, case)
    location.delete()


def check_healthy(location: "Location", key: str, found: Found, case: str) -> None:
    """Check that a thread without damage is listed, and that each of its rows is read."""
    from viewer.host.locations.indexing import import_run
    from viewer.models import Run
    from viewer.records.bodies import body_of

    run = location.runs.filter(key=key).first()
    if run is None:
        found.faults.append(f"{case}: {key} is not listed")
        return
    import_run(run)
    rows = Run.objects.get(pk=run.pk).checkpoints.select_related("location")
    if rows.count() != STEPS + 1:
        found.faults.append(f"{case}: {key} has {rows.count()} checkpoints")
    for row in rows:
        with measured(found, case, "read a healthy row"):
            body_of(row)


def check_damaged(location: "Location", found: Found, case: str) -> None:
    """Check that of the damaged thread, all rows but the damaged one are read."""
    from viewer.host_requests import NotReadable
    from viewer.models import Run
    from viewer.records.bodies import body_of

    run = location.runs.filter(key=DAMAGED).first()
    if run is None and not case.startswith("checkpoints.thread_id"):
        found.faults.append(f"{case}: the damaged thread is not listed")
    if run is None:
        return
    readable = 0
    for row in Run.objects.get(pk=run.pk).checkpoints.select_related("location"):
        with contextlib.suppress(NotReadable):
            readable += bool(body_of(row))
    if readable < STEPS:
        found.faults.append(f"{case}: {readable} rows of the thread can be read")


def browser() -> "Client":
    """A client that is logged in."""
    client = logged_in()
    # Link previews of chats get an empty page.
    client.defaults["HTTP_USER_AGENT"] = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"
    return client


@contextlib.contextmanager
def announced(case: str, found: Found) -> Iterator[None]:
    """Print the case, and afterwards its faults, since all cases take many minutes."""
    print(case, file=sys.stderr, flush=True)
    before = len(found.faults)
    yield
    for fault in found.faults[before:]:
        print(f"  {fault}", file=sys.stderr, flush=True)


def run_all(
    folder: Path, scale: float = 1.0, chosen: Callable[[str], bool] = lambda case: True
) -> Mapping[str, Found]:
    """The results by table and column."""
    results: dict[str, Found] = {}
    client = browser()
    for case, path in damaged_stores(folder, scale):
        if chosen(case):
            found = results.setdefault(case.partition(":")[0], Found())
            with announced(case, found):
                check_store(client, case, path, found)
    return results


def main() -> int:
    """Print a table, and each fault. Return 1 if there is any, else 0.

    Arguments are a pattern of the damages, and the scale of the large ones.
    """
    return report(run_all)


def report(run: Callable[[Path, float, Callable[[str], bool]], Mapping[str, Found]]) -> int:
    """Run the cases that the arguments choose, and print the results. Return 1 if any is wrong, else 0."""
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    scale = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    with temporary_data_folder(), tempfile.TemporaryDirectory(prefix="forkline-quality-") as stores:
        from django.conf import settings

        # Every refusal would be logged.
        logging.disable(logging.ERROR)
        settings.CHECKPOINT_ROOTS = [Path(stores)]
        results = run(Path(stores), scale, lambda case: re.search(pattern, case) is not None)
    print_heading("column", "stores", "visits", "slowest", "faults")
    for name, found in results.items():
        print_row(name, found.stores, found.visits, f"{found.slowest:.1f} s", len(found.faults))
    found_all = results.values()
    print(f"{sum(f.stores for f in found_all)} stores, {sum(f.visits for f in found_all)} visits")
    faults = [fault for found in found_all for fault in found.faults]
    for fault in faults:
        print(fault)
    return 1 if faults or not results else 0


if __name__ == "__main__":
    sys.exit(main())
