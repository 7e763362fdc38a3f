"""Who may import whom: the rooms of the house, as a test."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STANDARD = frozenset(sys.stdlib_module_names)
DJANGO = {"django", "channels", "asgiref", "django_tasks", "django_htmx", "csp", "sesame"}

# Room -> what it may import beside the standard library and itself. The longest match counts.
ROOMS: dict[str, set[str]] = {
    "viewer/redaction": {"msgspec", "ahocorasick_rs", "re2"},
    "viewer/providers": {
        "apsw",
        "msgspec",
        "zstandard",
        "ahocorasick_rs",
        "viewer.redaction",
        "viewer.titles",
        "viewer.words",
    },
    "viewer/environment_file.py": {"dotenv", "viewer.redaction"},
    "viewer/words.py": set(),
    "viewer/titles.py": set(),
    "viewer/lineage": {"graphviz", "viewer.words"},
    "viewer/contents": {"viewer.titles"},
    "viewer/picture": DJANGO | {"viewer.models", "viewer.lineage", "viewer.contents"},
    "viewer/markdown.py": {"django", "markdown_it", "nh3"},
    "viewer/jobs/plan.py": {"viewer.jobs.flow_plan", "viewer.words"},
    "viewer/jobs/flow_plan.py": set(),
    "viewer/jobs/branch.py": {"viewer.words"},
    "viewer/jobs/spool.py": set(),
    "viewer/engines/forkline_guard": {"forkline_guard"},
    "viewer/engines": {
        "crewai",
        "pydantic",
        "forkline_crewai",
        "forkline_guard",
        "forkline_warm",
        "viewer.jobs.spool",
    },
    "viewer/models": DJANGO | {"viewer.words"},
    "viewer/importing": DJANGO
    | {
        "msgspec",
        "zstandard",
        "viewer.environment_file",
        "viewer.providers",
        "viewer.redaction",
        "viewer.lineage",
        "viewer.models",
        "viewer.wording",
        "viewer.words",
    },
    "viewer/jobs/progress.py": {"viewer.titles"},
    "viewer/jobs": DJANGO
    | {
        "viewer.models",
        "viewer.importing",
        "viewer.environment_file",
        "viewer.redaction",
        "viewer.wording",
        "viewer.words",
        "viewer.data_folder",
        "django_tasks_db",
        "psutil",
        "dotenv",
    },
    "viewer/terminal": DJANGO
    | {
        "viewer.models",
        "viewer.importing",
        "viewer.contents",
        "viewer.forms",
        "viewer.jobs",
        "viewer.entry_points",
        "viewer.engine_events",
        "viewer.flow_methods",
        "viewer.input_names",
        "viewer.earlier_runs",
        "viewer.proposing",
        "viewer.data_folder",
        "viewer.safe_lines",
        "viewer.wording",
        "viewer.redaction",
    },
    "viewer/safe_lines.py": set(),
    "viewer/definitions.py": {"yaml"},
    "viewer/entry_points.py": {"viewer.definitions"},
    "viewer/engine_events.py": set(),
    "viewer/earlier_runs.py": DJANGO
    | {"viewer.models", "viewer.importing", "viewer.contents", "viewer.entry_points", "viewer.forms"},
    "viewer/input_names.py": {"viewer.definitions"},
    "viewer/flow_methods.py": {"viewer.definitions", "viewer.input_names", "viewer.jobs.flow_plan"},
    "viewer/import_folders.py": set(),
    "viewer/proposing.py": {"viewer.entry_points", "viewer.import_folders"},
    "viewer/wording.py": {"django", "viewer.jobs.flow_plan", "viewer.jobs.plan", "viewer.words"},
    "viewer/supervision": {"django", "psutil"},
    "viewer/live": DJANGO
    | {
        "viewer.models",
        "viewer.importing",
        "viewer.jobs.progress",
        "viewer.jobs.timeline",
        "viewer.jobs.showing",
        "viewer.rights",
    },
    "viewer/addresses.py": set(),
    "viewer/consumers.py": DJANGO | {"viewer.addresses", "viewer.models", "viewer.live", "viewer.rights"},
    "viewer/forms": DJANGO
    | {
        "viewer.models",
        "viewer.contents",
        "viewer.wording",
        "viewer.words",
        "viewer.definitions",
        "viewer.engine_events",
        "viewer.entry_points",
        "viewer.flow_methods",
        "viewer.input_names",
        "viewer.picture.triggers",
        "viewer.jobs.spool",
        "viewer.jobs.terms",
        "viewer.jobs.flow_plan",
        "viewer.jobs.plan",
        "viewer.jobs.branch",
        "viewer.jobs.retry",
        "viewer.redaction",
    },
    "viewer/comparing.py": {"viewer.forms.difference", "viewer.jobs.progress", "viewer.models"},
    "viewer/data_folder": DJANGO | {"viewer.models", "viewer.words"},
    "viewer/rights.py": DJANGO,
    "viewer/login_links.py": DJANGO | {"viewer.rights"},
    "viewer/apps.py": DJANGO,
    "viewer/routing.py": DJANGO | {"viewer.consumers"},
    "viewer/urls.py": DJANGO | {"viewer.views"},
    "viewer/templatetags": DJANGO
    | {"viewer.models", "viewer.markdown", "viewer.picture", "viewer.jobs", "viewer.wording"},
    "viewer/management": DJANGO
    | {
        "viewer.models",
        "viewer.importing",
        "viewer.terminal",
        "viewer.jobs",
        "viewer.data_folder",
        "viewer.login_links",
        "viewer.rights",
        "viewer.supervision",
        "viewer.wording",
    },
    "viewer/views": DJANGO
    | {
        "viewer.addresses",
        "viewer.forms",
        "viewer.models",
        "viewer.importing",
        "viewer.lineage",
        "viewer.contents",
        "viewer.picture",
        "viewer.jobs",
        "viewer.proposing",
        "viewer.entry_points",
        "viewer.engine_events",
        "viewer.flow_methods",
        "viewer.input_names",
        "viewer.earlier_runs",
        "viewer.comparing",
        "viewer.data_folder",
        "viewer.rights",
        "viewer.wording",
    },
}


def room_of(path: str) -> str | None:
    """The longest room that this file stands in."""
    rooms = [room for room in ROOMS if path == room or path == f"{room}.py" or path.startswith(f"{room}/")]
    return max(rooms, key=len, default=None)


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def strangers_in(path: Path) -> list[str]:
    """The modules that this file imports and its room may not."""
    relative = path.relative_to(ROOT).as_posix()
    room = room_of(relative)
    assert room, f"{relative} stands in no room of the table"
    own = room.removesuffix(".py").replace("/", ".")
    allowed = ROOMS[room] | {own}
    return [
        module
        for module in imported_modules(path)
        if module.split(".")[0] not in STANDARD
        and not any(module == name or module.startswith(f"{name}.") for name in allowed)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    found = (
        [ROOT / room] if room.endswith(".py") else [*(ROOT / room).rglob("*.py"), *ROOT.glob(f"{room}.py")]
    )
    files = [path for path in found if path.exists() and room_of(path.relative_to(ROOT).as_posix()) == room]
    assert files, f"the table names {room}, which is not there"
    strangers = {path.relative_to(ROOT).as_posix(): strangers_in(path) for path in files}
    assert not {path: modules for path, modules in strangers.items() if modules}


def test_every_file_stands_in_a_room() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "viewer").rglob("*.py")]
    migrations = {path for path in files if path.startswith("viewer/migrations/")}
    assert [path for path in files if path not in migrations and not room_of(path)] == ["viewer/__init__.py"]


def test_nobody_but_the_address_table_imports_views() -> None:
    importers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "viewer").rglob("*.py")
        if any(module.startswith("viewer.views") for module in imported_modules(path))
    ]
    assert [
        path for path in importers if path != "viewer/urls.py" and not path.startswith("viewer/views/")
    ] == []


def test_only_the_runner_imports_an_engine() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "viewer").rglob("*.py")
        if any(module.split(".")[0] == "crewai" for module in imported_modules(path))
    }
    assert all(path.startswith("viewer/engines/") for path in importers), importers
