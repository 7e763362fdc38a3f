"""The project that a location's runs belong to, guessed from its surroundings. Reads; never runs anything."""

import ast
import os
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

# The walk upwards and the reading of source are bounded: a location may stand anywhere.
MOST_FOLDERS_UP = 12
MOST_FOLDERS_UP_FOR_ENVIRONMENT = 3
MOST_SOURCE_FILES = 400
MOST_SOURCE_DEPTH = 6
MOST_SOURCE_FOLDERS = 2_000
MOST_SOURCE_BYTES = 256 * 1024
MOST_BYTES_ALTOGETHER = 4 * 1024 * 1024
MOST_ENTRY_POINTS = 50
NO_SOURCE = {"node_modules", "site-packages", "__pycache__", "build", "dist", "tests", "test", "docs"}
INTERPRETERS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """``name`` is ``module:Name``; ``kind`` is what stands there."""

    name: str
    kind: str  # "flow" or "crew"


@dataclass(frozen=True, slots=True)
class ProposedProject:
    """What was found around a location. ``None`` and an empty tuple mean: nothing was found."""

    folder: Path
    interpreter: Path | None
    environment_file: Path | None
    entry_points: tuple[EntryPoint, ...]


def propose_project(location_path: Path) -> ProposedProject:
    """The project around a location, for a person to confirm. Reads files, imports and runs none."""
    folder = project_folder(location_path)
    return ProposedProject(
        folder=folder,
        interpreter=find_interpreter(folder),
        environment_file=folder / ".env" if _is_file(folder / ".env") else None,
        entry_points=find_entry_points(folder),
    )


def project_folder(location_path: Path) -> Path:
    """The nearest folder upwards with a pyproject.toml, else with an environment, else the one around."""
    start = location_path.absolute()
    upwards = [folder for folder in (start, *start.parents)[:MOST_FOLDERS_UP] if folder.parent != folder]
    for marks in (("pyproject.toml",), INTERPRETERS):
        for folder in upwards:
            if any(_is_file(folder / mark) for mark in marks):
                return folder
    return start.parent


def find_interpreter(folder: Path) -> Path | None:
    """The Python of the folder's environment, or of one a few folders up, as workspaces have it.

    The link is not followed: behind it stands an interpreter that knows nothing of the environment.
    """
    for above in (folder, *folder.parents[:MOST_FOLDERS_UP_FOR_ENVIRONMENT]):
        for name in INTERPRETERS:
            if _is_file(above / name) and os.access(above / name, os.X_OK):
                return above / name
    return None


def python_version(interpreter: Path) -> str:
    """The version its environment was made with, such as ``3.11.2``; empty where that is not written."""
    try:
        lines = (interpreter.parent.parent / "pyvenv.cfg").read_text(errors="replace")[:10_000].splitlines()
    except OSError:
        return ""
    settings = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return settings.get("version") or settings.get("version_info", "")


def engine_version(interpreter: Path) -> str:
    """The version of CrewAI in the interpreter's environment; empty where none is installed there."""
    environment = interpreter.parent.parent
    folders = [*environment.glob("lib/python3*/site-packages"), environment / "Lib" / "site-packages"]
    for folder in folders:
        for installed in sorted(folder.glob("crewai-*.dist-info")):
            return installed.name.removeprefix("crewai-").removesuffix(".dist-info")
    return ""


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """Every flow and crew that the folder's source defines, the project's own kind and packages first."""
    modules = [parsed for path in _source_files(folder) if (parsed := _read_module(folder, path))]
    flows = _flow_classes(modules)
    found = [point for module in modules for point in _entry_points_of(module, flows)]
    settings = _project_settings(folder)
    packages = {
        str(target).split(":")[0].split(".")[0] for target in _table(settings, "project", "scripts").values()
    }
    kind = _table(settings, "tool", "crewai").get("type")
    found.sort(key=lambda point: (point.kind != kind, point.name.split(".")[0].split(":")[0] not in packages))
    return tuple(found[:MOST_ENTRY_POINTS])


@dataclass(frozen=True, slots=True)
class _Module:
    name: str
    tree: ast.Module
    # What a name of this module is called where it was imported from.
    imported: dict[str, str]

    def original(self, node: ast.expr | None) -> str:
        """The last part of what a base, decorator or annotation names, aliases undone."""
        if isinstance(node, ast.Subscript | ast.Call):
            return self.original(node.value if isinstance(node, ast.Subscript) else node.func)
        if isinstance(node, ast.Attribute):
            return node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.rpartition(".")[2]
        return self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _flow_classes(modules: list[_Module]) -> set[str]:
    """Names of all classes that come from Flow, over any number of the project's own classes."""
    bases = {
        node.name: {module.original(base) for base in node.bases}
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    flows = {"Flow"}
    while more := {name for name, parents in bases.items() if parents & flows and name not in flows}:
        flows |= more
    return flows


def _entry_points_of(module: _Module, flows: set[str]) -> Iterator[EntryPoint]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef):
            if any(module.original(base) in flows for base in node.bases):
                yield EntryPoint(f"{module.name}:{node.name}", "flow")
            elif any(module.original(decorator) == "CrewBase" for decorator in node.decorator_list):
                yield EntryPoint(f"{module.name}:{node.name}", "crew")
        elif isinstance(node, ast.FunctionDef) and _makes_a_crew(module, node):
            yield EntryPoint(f"{module.name}:{node.name}", "crew")


def _makes_a_crew(module: _Module, node: ast.FunctionDef) -> bool:
    """Whether it can be called without arguments and hands back a crew, by annotation or by its last word."""
    arguments = node.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if needed or any(default is None for default in arguments.kw_defaults):
        return False
    if node.returns is not None:
        return module.original(node.returns) == "Crew"
    last = node.body[-1]
    return (
        isinstance(last, ast.Return)
        and isinstance(last.value, ast.Call)
        and module.original(last.value) == "Crew"
    )


def _source_files(folder: Path) -> Iterator[Path]:
    """The project's Python files, environments and hidden folders left out, no link followed, bounded."""
    files_left, bytes_left = MOST_SOURCE_FILES, MOST_BYTES_ALTOGETHER
    for current, folders, files in islice(os.walk(folder), MOST_SOURCE_FOLDERS):
        depth = len(Path(current).relative_to(folder).parts)
        folders[:] = sorted(
            name for name in folders if depth < MOST_SOURCE_DEPTH and _may_hold_source(current, name)
        )
        for path in (Path(current) / name for name in sorted(files) if name.endswith(".py")):
            size = _size(path)
            if not 0 < size <= MOST_SOURCE_BYTES:
                continue
            files_left, bytes_left = files_left - 1, bytes_left - size
            if files_left < 0 or bytes_left < 0:
                return
            yield path


def _size(path: Path) -> int:
    """The bytes of an ordinary file; 0 for a link and for what is no file."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _may_hold_source(parent: str, name: str) -> bool:
    # Folders of an import path are identifiers, and an environment says what it is.
    return name.isidentifier() and name not in NO_SOURCE and not _is_file(Path(parent) / name / "pyvenv.cfg")


def _read_module(folder: Path, path: Path) -> _Module | None:
    """The file as a syntax tree; None where it cannot define a flow or crew, or is no Python."""
    root = folder / "src" if path.is_relative_to(folder / "src") else folder
    parts = path.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    try:
        source = path.read_bytes()
        if b"class " not in source and b"Crew" not in source:
            return None
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imported = {
        alias.asname: alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    return _Module(".".join(parts), tree, imported)


def _project_settings(folder: Path) -> dict[str, Any]:
    try:
        with open(folder / "pyproject.toml", "rb") as file:
            return tomllib.loads(file.read(MOST_SOURCE_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _table(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    value: Any = settings
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
