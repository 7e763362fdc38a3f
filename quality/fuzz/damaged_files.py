"""Damages each part of a CrewAI checkpoint in turn, in a folder and in a database, and shows the rest.

Each store has healthy checkpoints and one of which a part is wide, deep, long or of another type. Passes if
nothing raises an error, no page is a 5xx, the healthy checkpoints are read, the damaged one is read or has a
reason, and nothing takes too long.
"""

import contextlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quality.fuzz.damaged_rows import Found, announced, browser, measured, report, visit_all
from quality.temporary_data_folder import ROOT

if TYPE_CHECKING:
    from django.test import Client

RECORDED = ROOT / "tests/recorded_stores/1.15.30"
# A place that no checkpoint contains by itself.
PLACE = "a place for the damage"
Place = tuple[str | int, ...]
_NODE = "*"
EVERY = 3
PARTS: Mapping[str, tuple[Place, ...]] = {
    "flow/main": (
        ("entities", 0, "checkpoint_state"),
        ("entities", 0, "checkpoint_method_outputs"),
        ("entities", 0, "checkpoint_method_outputs", 0, "output"),
        ("entities", 0, "checkpoint_completed_methods"),
        ("entities", 0, "checkpoint_method_counts"),
        ("entities", 0, "execution_context"),
        ("entities", 0, "memory"),
        ("entities", 0, "human_feedback_history"),
    ),
    "json/main": (
        ("crewai_version",),
        ("parent_id",),
        ("branch",),
        ("trigger",),
        ("entities",),
        ("entities", 0),
        ("entities", 0, "entity_type"),
        ("entities", 0, "name"),
        ("entities", 0, "tasks"),
        ("entities", 0, "tasks", 0),
        ("entities", 0, "tasks", 0, "description"),
        ("entities", 0, "tasks", 0, "agent"),
        ("entities", 0, "tasks", 0, "output"),
        ("entities", 0, "tasks", 0, "output", "raw"),
        ("entities", 0, "tasks", 0, "output", "messages"),
        ("entities", 0, "tasks", 0, "start_time"),
        ("entities", 0, "agents"),
        ("entities", 0, "agents", 0),
        ("entities", 0, "agents", 0, "llm"),
        ("entities", 0, "agents", 0, "tools"),
        ("entities", 0, "checkpoint_inputs"),
        ("entities", 0, "checkpoint_kickoff_event_id"),
        ("event_record",),
        ("event_record", "nodes"),
        ("event_record", "nodes", _NODE),
        ("event_record", "nodes", _NODE, "event"),
        ("event_record", "nodes", _NODE, "event", "timestamp"),
        ("event_record", "nodes", _NODE, "edges"),
    ),
}


def damages(scale: float) -> dict[str, str]:
    """The JSON of every damage, by its name. ``scale`` makes wide and long ones smaller."""
    wide, long, shown = int(3_000_000 * scale), int(500_000 * scale), int(10_000 * scale)
    named = {f"name {number}": {"name": number, "role": "user", "content": "x"} for number in range(shown)}
    return {
        "wide": "[" + "{}," * wide + "1]",
        "wide within the limits": json.dumps([{}] * shown),
        "wide mapping": json.dumps(named),
        "a wide list of mappings": json.dumps(list(named.values())),
        "a wide list of texts": json.dumps(list(named)),
        "deep": "[" * 150 + "]" * 150,
        "deeper": '{"a":' * 100_000 + "1" + "}" * 100_000,
        "a long text": json.dumps("x" * long),
        "a long text with spaces": json.dumps("key password=" * (long // 13)),
        "digits": json.dumps("7" * 5_000),
        "a huge number": "9" * 4_000,
        "a larger number": "9" * 3_999,
        "a large number": str(2**64),
        "infinity": "1e999",
        "a negative number": str(-(2**63)),
        "a lone surrogate": '"\\ud800"',
        "control characters": json.dumps("a\nb\0c\x1b]0;x\x07\u202e"),
        "null": "null",
        "true": "true",
        "an empty list": "[]",
        "an empty mapping": "{}",
        "an empty text": '""',
        "nested lists": "[[[]]]",
        "a list of null": "[null]",
        "cut off": '{"a": [1',
    }


def bodies(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The names of the files of a recorded run, with their bodies, oldest first."""
    paths = list(folder.glob("*.json"))
    found = {path.stem.partition("_p-")[0]: (path, json.loads(path.read_text())) for path in paths}
    return [(path.name, body) for _own_id, (path, body) in sorted(found.items())]


def damaged_text(body: dict[str, Any], part: Place, damage: str) -> str | None:
    """The checkpoint with this JSON instead of a part; None if it does not have the part."""
    body = json.loads(json.dumps(body))
    at: Any = body
    try:
        for step in part[:-1]:
            at = at[next(iter(at)) if step == _NODE else step]
        at[next(iter(at)) if part[-1] == _NODE else part[-1]] = PLACE
    except (KeyError, IndexError, TypeError):
        return None
    return json.dumps(body).replace(json.dumps(PLACE), damage, 1)


def make_folder(path: Path, texts: Mapping[str, str]) -> None:
    (path / "main").mkdir(parents=True)
    for name, text in texts.items():
        (path / "main" / name).write_text(text)


def make_database(path: Path, texts: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, parent_id TEXT,"
            " branch TEXT NOT NULL DEFAULT 'main', data JSONB NOT NULL)"
        )
        for name, text in texts.items():
            own_id, _p, parent = name.removesuffix(".json").partition("_p-")
            row = own_id, own_id[:15], None if parent == "none" else parent, text
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, 'main', ?)", row)
        connection.commit()


def damaged_stores(folder: Path, scale: float) -> Iterator[tuple[str, Path, str, int]]:
    """The case, the path of a store, the damaged checkpoint's id, and the number of healthy checkpoints.

    The next store replaces it. Every second one is a database. Each part gets every third damage, beginning
    with another one than the part before it, so that each damage is tried in about twelve parts.
    """
    number, first = 0, 0
    for recorded, parts in PARTS.items():
        own = bodies(RECORDED / recorded)
        for part in parts:
            first = (first + 1) % EVERY
            for name, damage in list(damages(scale).items())[first::EVERY]:
                texts = {file: json.dumps(body) for file, body in own}
                # The last but one, so that a checkpoint before and one after it are healthy.
                file, body = own[-2]
                text = damaged_text(body, part, damage)
                if text is None:
                    continue
                number += 1
                texts[file] = text
                shutil.rmtree(folder / "damaged", ignore_errors=True)
                path = folder / "damaged" / "store"
                if number % 2:
                    make_folder(path, texts)
                else:
                    path = path.with_suffix(".db")
                    make_database(path, texts)
                own_id = file.partition("_p-")[0]
                yield f"{'.'.join(map(str, part))}: {name}", path, own_id, len(own) - 1


def check_store(client: "Client", case: str, path: Path, damaged: str, count: int, found: Found) -> None:
    """Import a damaged store, open everything, and check that every other checkpoint is there."""
    from tests.imported import imported_location
    from viewer.host_requests import NotReadable
    from viewer.models import Checkpoint
    from viewer.records.bodies import body_of

    location = None
    found.stores += 1
    with measured(found, case, "import"):
        location = imported_location(path)
    if location is None:
        return
    runs = list(location.runs.order_by("pk"))
    visit_all(client, location, runs, found, case)
    healthy, is_read = 0, False
    for row in Checkpoint.objects.filter(location=location).select_related("location", "stored_copy"):
        # The key of a child contains the id of its parent.
        if Path(row.source_key).name.startswith(damaged):
            is_read = True
            continue
        with contextlib.suppress(NotReadable):
            healthy += bool(body_of(row))
    if healthy != count:
        found.faults.append(f"{case}: {healthy} of {count} healthy checkpoints are read")
    if not is_read and not location.problems.exists():
        found.faults.append(f"{case}: the damaged checkpoint has no reason")
    location.delete()


def run_all(folder: Path, scale: float, chosen: Callable[[str], bool]) -> Mapping[str, Found]:
    """The results by part."""
    results: dict[str, Found] = {}
    client = browser()
    for case, path, damaged, count in damaged_stores(folder, scale):
        if chosen(case):
            found = results.setdefault(case.partition(":")[0], Found())
            with announced(case, found):
                check_store(client, case, path, damaged, count, found)
    return results


def main() -> int:
    """As ``damaged_rows.main``."""
    return report(run_all)


if __name__ == "__main__":
    sys.exit(main())
