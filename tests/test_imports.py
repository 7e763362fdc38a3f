"""Which package may import which."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STANDARD = frozenset(sys.stdlib_module_names)
DJANGO = {"django", "channels", "asgiref", "django_tasks", "django_htmx", "csp", "sesame"}

# Package or module -> what it may import besides the standard library and itself. The longest match counts.
IMPORTS: dict[str, set[str]] = {
    "viewer/redaction": {"ahocorasick_rs", "msgspec", "re2"},
    "viewer/stores": {
        "apsw",
        "msgspec",
        "viewer.engines",
        "viewer.messages.message",
        "viewer.redaction",
        "zstandard",
    },
    "viewer/messages/message.py": {"viewer.messages.catalog"},
    "viewer/messages/labels.py": DJANGO | {"viewer.engines"},
    "viewer/messages/catalog": {"viewer.messages.marking"},
    "viewer/messages/marking.py": set(),
    "viewer/messages/translation.py": DJANGO | {"viewer.messages.message"},
    "viewer/lineage": {"viewer.messages.message"},
    "viewer/lineage/drawing.py": {"graphviz", "viewer.lineage", "viewer.messages.message"},
    "viewer/projects": {"dotenv", "viewer.engines", "viewer.redaction"},
    "viewer/engines": {"viewer.messages.message", "viewer.stores.protocol"},
    "viewer/engines/crewai": {
        "msgspec",
        "viewer.engines",
        "viewer.messages.marking",
        "viewer.messages.message",
        "viewer.redaction",
        "viewer.stores",
        "yaml",
    },
    "viewer/presentation/run": DJANGO
    | {"viewer.engines", "viewer.lineage", "viewer.lineage.drawing", "viewer.models"},
    "viewer/presentation/launch": DJANGO
    | {
        "viewer.engines",
        "viewer.forms",
        "viewer.importing",
        "viewer.launching",
        "viewer.lineage",
        "viewer.models",
    },
    "viewer/presentation/jobs": DJANGO
    | {
        "viewer.engines",
        "viewer.jobs",
        "viewer.jobs.limits",
        "viewer.jobs.queue",
        "viewer.launching",
        "viewer.messages.translation",
        "viewer.messages.message",
        "viewer.models",
    },
    "viewer/presentation": DJANGO | {"markdown_it", "nh3", "viewer.models", "viewer.presentation.jobs"},
    "viewer/launching": DJANGO
    | {
        "viewer.engines",
        "viewer.importing",
        "viewer.jobs",
        "viewer.jobs.execution",
        "viewer.jobs.preflight",
        "viewer.jobs.queue",
        "viewer.jobs.spool",
        "viewer.lineage",
        "viewer.messages.labels",
        "viewer.messages.translation",
        "viewer.messages.message",
        "viewer.models",
        "viewer.redaction",
    },
    "viewer/forms": DJANGO
    | {
        "viewer.engines",
        "viewer.jobs.spool",
        "viewer.launching",
        "viewer.models",
        "viewer.presentation",
        "viewer.presentation.run",
        "viewer.redaction",
    },
    "viewer/jobs/queue": DJANGO
    | {
        "django_tasks_db",
        "viewer.data_folder",
        "viewer.jobs",
        "viewer.jobs.execution",
        "viewer.jobs.limits",
        "viewer.jobs.prewarm",
        "viewer.models",
    },
    "viewer/jobs/execution": DJANGO
    | {
        "psutil",
        "viewer.data_folder",
        "viewer.engines",
        "viewer.importing",
        "viewer.jobs",
        "viewer.jobs.human_input",
        "viewer.jobs.limits",
        "viewer.jobs.preflight",
        "viewer.jobs.prewarm",
        "viewer.jobs.queue",
        "viewer.jobs.spool",
        "viewer.messages.message",
        "viewer.models",
        "viewer.projects",
        "viewer.redaction",
    },
    "viewer/jobs/limits": DJANGO
    | {
        "viewer.engines",
        "viewer.jobs.event_values",
        "viewer.jobs.spool",
        "viewer.jobs.storage",
        "viewer.models",
    },
    "viewer/jobs/preflight": DJANGO
    | {
        "viewer.engines",
        "viewer.importing",
        "viewer.jobs",
        "viewer.jobs.execution",
        "viewer.jobs.spool",
        "viewer.messages.message",
        "viewer.models",
        "viewer.redaction",
    },
    "viewer/jobs/prewarm": DJANGO
    | {"viewer.engines", "psutil", "viewer.jobs", "viewer.jobs.execution", "viewer.models"},
    "viewer/jobs/human_input": DJANGO
    | {
        "viewer.jobs.event_values",
        "viewer.jobs.execution",
        "viewer.jobs.spool",
        "viewer.jobs.storage",
        "viewer.models",
    },
    "viewer/jobs/spool.py": set(),
    "viewer/jobs/event_values.py": set(),
    "viewer/jobs/storage.py": {"viewer.jobs.local_storage", "viewer.jobs.spool", "viewer.models"},
    "viewer/jobs/local_storage.py": DJANGO | {"viewer.jobs.locks", "viewer.jobs.spool"},
    "viewer/jobs/locks.py": DJANGO,
    "viewer/jobs": DJANGO,
    "viewer/runners/forkline_guard": {"forkline_guard"},
    "viewer/runners/forkline_prewarm": {"forkline_prewarm"},
    "viewer/runners/prewarm_runner.py": {"forkline_prewarm"},
    "viewer/runners/forkline_runner": {"forkline_guard", "forkline_runner", "viewer.jobs.spool"},
    "viewer/runners/forkline_crewai": {
        "crewai",
        "forkline_crewai",
        "forkline_guard",
        "forkline_runner",
        "pydantic",
        "viewer.jobs.spool",
    },
    "viewer/runners/crewai_runner.py": {"forkline_crewai", "forkline_runner"},
    "viewer/models": DJANGO | {"viewer.messages.message"},
    "viewer/importing": DJANGO
    | {
        "msgspec",
        "viewer.engines",
        "viewer.lineage",
        "viewer.messages.translation",
        "viewer.messages.message",
        "viewer.models",
        "viewer.projects",
        "viewer.redaction",
        "viewer.stores",
        "zstandard",
    },
    "viewer/cli": DJANGO
    | {
        "viewer.cli.safe_lines",
        "viewer.data_folder",
        "viewer.engines",
        "viewer.importing",
        "viewer.jobs",
        "viewer.jobs.execution",
        "viewer.jobs.human_input",
        "viewer.jobs.limits",
        "viewer.jobs.spool",
        "viewer.launching",
        "viewer.lineage",
        "viewer.messages.labels",
        "viewer.messages.translation",
        "viewer.models",
        "viewer.presentation.jobs",
        "viewer.projects",
    },
    "viewer/cli/safe_lines.py": set(),
    "viewer/management": DJANGO
    | {
        "viewer.access",
        "viewer.cli",
        "viewer.data_folder",
        "viewer.importing",
        "viewer.jobs.execution",
        "viewer.jobs.queue",
        "viewer.messages.translation",
        "viewer.models",
        "viewer.supervision",
    },
    "viewer/supervision": DJANGO | {"psutil"},
    "viewer/live": DJANGO
    | {"viewer.engines", "viewer.access", "viewer.importing", "viewer.models", "viewer.presentation.jobs"},
    "viewer/consumers.py": DJANGO | {"viewer.access", "viewer.live", "viewer.models"},
    "viewer/data_folder": DJANGO | {"viewer.messages.message", "viewer.models"},
    "viewer/access": DJANGO,
    "viewer/apps.py": DJANGO,
    "viewer/routing.py": DJANGO | {"viewer.consumers"},
    "viewer/urls.py": DJANGO | {"viewer.views"},
    "viewer/templatetags": DJANGO
    | {
        "viewer.jobs.human_input",
        "viewer.jobs.limits",
        "viewer.messages.labels",
        "viewer.messages.translation",
        "viewer.models",
        "viewer.presentation",
        "viewer.presentation.jobs",
        "viewer.presentation.run",
    },
    "viewer/views": DJANGO
    | {
        "viewer.access",
        "viewer.data_folder",
        "viewer.engines",
        "viewer.forms",
        "viewer.importing",
        "viewer.jobs.execution",
        "viewer.jobs.human_input",
        "viewer.jobs.limits",
        "viewer.jobs.preflight",
        "viewer.jobs.prewarm",
        "viewer.jobs.spool",
        "viewer.launching",
        "viewer.lineage.drawing",
        "viewer.messages.translation",
        "viewer.models",
        "viewer.presentation",
        "viewer.presentation.jobs",
        "viewer.presentation.launch",
        "viewer.presentation.run",
        "viewer.projects",
    },
}


def package_of(path: str) -> str | None:
    """Return the longest entry of the table that contains this file."""
    packages = [
        package for package in IMPORTS if path in (package, f"{package}.py") or path.startswith(f"{package}/")
    ]
    return max(packages, key=len, default=None)


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(path: Path) -> list[str]:
    """Return the modules that this file imports and must not."""
    relative = path.relative_to(ROOT).as_posix()
    package = package_of(relative)
    assert package, f"{relative} is not in the table"
    own = package.removesuffix(".py").replace("/", ".")
    allowed = IMPORTS[package] | {own}
    return [
        module
        for module in imported_modules(path)
        if module.split(".")[0] not in STANDARD
        and not any(module == name or module.startswith(f"{name}.") for name in allowed)
    ]


@pytest.mark.parametrize("package", IMPORTS)
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    found = (
        [ROOT / package]
        if package.endswith(".py")
        else [*(ROOT / package).rglob("*.py"), *ROOT.glob(f"{package}.py")]
    )
    files = [
        path for path in found if path.exists() and package_of(path.relative_to(ROOT).as_posix()) == package
    ]
    assert files, f"the table names {package}, which is not there"
    forbidden = {path.relative_to(ROOT).as_posix(): forbidden_imports(path) for path in files}
    assert not {path: modules for path, modules in forbidden.items() if modules}


def test_the_table_covers_every_file() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "viewer").rglob("*.py")]
    migrations = {path for path in files if path.startswith("viewer/migrations/")}
    assert [path for path in sorted(files) if path not in migrations and not package_of(path)] == [
        "viewer/__init__.py",
        "viewer/messages/__init__.py",
    ]


def test_only_urls_imports_views() -> None:
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
    assert all(path.startswith("viewer/runners/forkline_crewai/") for path in importers), importers


def test_what_runners_share_names_no_unit_of_an_engine() -> None:
    engine_terms = re.compile(r"crewai|\b(crew|task|flow)s?\b", re.IGNORECASE)
    sources = {path.name: path.read_text() for path in (ROOT / "viewer/runners/forkline_runner").glob("*.py")}
    assert {name: found for name, text in sources.items() if (found := engine_terms.findall(text))} == {}
