"""Which package may import which."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.import_table import DJANGO, IMPORTS

ROOT = Path(__file__).resolve().parent.parent
STANDARD = frozenset(sys.stdlib_module_names)


def package_of(path: str) -> str | None:
    """Return the longest entry of the table that contains this file."""
    packages = [
        package for package in IMPORTS if path in (package, f"{package}.py") or path.startswith(f"{package}/")
    ]
    return max(packages, key=len, default=None)


@cache
def imported_modules(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


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


def test_the_table_allows_nothing_that_is_not_imported() -> None:
    unused = {package: names - DJANGO for package, names in IMPORTS.items()}
    for path in (ROOT / "viewer").rglob("*.py"):
        package = package_of(path.relative_to(ROOT).as_posix())
        modules = imported_modules(path) if package else ()
        for module in modules:
            unused[str(package)] -= {
                name for name in unused[str(package)] if f"{module}.".startswith(f"{name}.")
            }
    assert {package: names for package, names in unused.items() if names} == {}


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


def test_jobs_leave_texts_and_addresses_to_presentation() -> None:
    shown = ("django.utils.translation", "django.utils.formats", "django.urls", "django.shortcuts")
    importers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "viewer/jobs").rglob("*.py")
        if any(module.startswith(shown) for module in imported_modules(path))
    ]
    assert importers == []


def test_tests_import_from_quality_only_what_they_test() -> None:
    testing = ("tests/compatibility/", "tests/fuzz/")
    importers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if any(module.startswith("quality.") for module in imported_modules(path))
    ]
    assert importers and [path for path in importers if not path.startswith(testing)] == []


def test_only_the_runner_imports_an_engine() -> None:
    engines = {"crewai": "forkline_crewai", "langgraph": "forkline_langgraph"}
    for engine, runner in engines.items():
        importers = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "viewer").rglob("*.py")
            if any(module.split(".")[0] == engine for module in imported_modules(path))
        }
        assert all(path.startswith(f"viewer/runners/{runner}/") for path in importers), importers


def test_what_runners_share_names_no_unit_of_an_engine() -> None:
    engine_terms = re.compile(r"crewai|\b(crew|task|flow)s?\b", re.IGNORECASE)
    sources = {path.name: path.read_text() for path in (ROOT / "viewer/runners/forkline_runner").glob("*.py")}
    assert {name: found for name, text in sources.items() if (found := engine_terms.findall(text))} == {}
