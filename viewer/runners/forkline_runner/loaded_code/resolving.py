"""Finds the files of a module by its name, without importing anything."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

from forkline_guard.guard import ImportRefused, covering

# Bounds for reading what the project's own entry points import.
MAX_MODULES = 400
MAX_SOURCE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ModuleFile:
    """A file that an import executes: a package's ``__init__`` or the module itself."""

    name: str
    path: str
    digest: str


class Unresolved(Exception):
    """The files of a module cannot be determined; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def files_of(module: str) -> tuple[ModuleFile, ...]:
    """Return every file that importing this module executes, packages first.

    Walks the import path, because ``importlib.util.find_spec`` would import the packages above the module.
    Raises Unresolved for modules of the standard library, missing modules, and modules without source.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise Unresolved("not a module name")
    _refuse_standard(parts[0])
    found: list[ModuleFile] = []
    search_path: list[str] | None = None
    for end in range(1, len(parts) + 1):
        spec = _spec_of(".".join(parts[:end]), search_path)
        search_path = list(spec.submodule_search_locations or []) or None
        if spec.loader is not None:
            found.append(_file_of(spec))
        elif end == len(parts) or search_path is None:
            raise Unresolved("a folder without code")
        if end < len(parts) and search_path is None:
            raise Unresolved("not found")
    return tuple(found)


def files_if_found(module: str) -> tuple[ModuleFile, ...]:
    """Return what ``files_of`` returns, or an empty tuple where it raises Unresolved."""
    try:
        return files_of(module)
    except Unresolved:
        return ()


def digest_of(files: Iterable[ModuleFile]) -> str:
    """Return one SHA-256 of the names and contents of these files."""
    text = "\n".join(f"{file.name} {file.digest}" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()


def imported_by(entry_points: Iterable[str]) -> set[str]:
    """Return the modules that the source of these entry points imports, directly or indirectly.

    The source is parsed, not run. Only modules with source below the working folder are followed.
    """
    waiting = [name.partition(":")[0] for name in entry_points if ":" in name]
    seen: set[str] = set()
    while waiting and len(seen) < MAX_MODULES:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            files = files_of(name)
        except Unresolved:
            seen.discard(name)
            continue
        for file in files:
            seen.add(file.name)
            if file.name == name and _is_below(Path(file.path), Path.cwd()):
                waiting += _imports_in(file)
    return seen


def _refuse_standard(top: str) -> None:
    is_named = top in sys.stdlib_module_names or top in sys.builtin_module_names
    if is_named or BuiltinImporter.find_spec(top) or FrozenImporter.find_spec(top):
        raise Unresolved("a module of Python itself")


def _spec_of(name: str, search_path: list[str] | None) -> ModuleSpec:
    try:
        spec = PathFinder.find_spec(name, search_path)
    except ImportRefused as error:
        raise Unresolved("it lies in a location or in the data folder") from error
    except (ImportError, ValueError, OSError) as error:
        raise Unresolved("not found") from error
    if spec is None:
        raise Unresolved("not found")
    for path in (spec.origin, spec.cached, *(spec.submodule_search_locations or ())):
        if path and covering(path):
            raise Unresolved("it lies in a location or in the data folder")
    return spec


def _file_of(spec: ModuleSpec) -> ModuleFile:
    if not spec.origin or not isinstance(spec.loader, SourceFileLoader):
        raise Unresolved("it has no source")
    try:
        data = Path(spec.origin).read_bytes()
    except OSError as error:
        raise Unresolved("not found") from error
    return ModuleFile(spec.name, spec.origin, hashlib.sha256(data).hexdigest())


def _imports_in(file: ModuleFile) -> Iterator[str]:
    """Yield the absolute names of what a file imports; for ``from a import b`` both ``a`` and ``a.b``."""
    try:
        source = Path(file.path).read_bytes()
        tree = ast.parse(source) if len(source) <= MAX_SOURCE_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    package = file.name if Path(file.path).stem == "__init__" else file.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(part for part in (*above, node.module or "") if part)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_below(path: Path, folder: Path) -> bool:
    resolved = path.resolve()
    return resolved.is_relative_to(folder.resolve()) and "site-packages" not in resolved.parts
