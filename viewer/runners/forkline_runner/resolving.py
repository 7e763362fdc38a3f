"""Finds the files of a module that is only named, and imports nothing. No engine."""

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
    """One file that an import executes: a package's ``__init__`` or the module itself."""

    name: str
    path: str
    digest: str


class Unresolved(Exception):
    """The module cannot be named by a checkpoint. ``reason`` is one of REASONS."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def files_of(module: str) -> tuple[ModuleFile, ...]:
    """Every file that importing this module executes by its name, packages first.

    ``importlib.util.find_spec`` would import the packages above it: the path is walked instead. Raises
    Unresolved for modules of the standard library, for what is not found, and for what has no source.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise Unresolved("not a module name")
    _refuse_standard(parts[0])
    found: list[ModuleFile] = []
    places: list[str] | None = None
    for end in range(1, len(parts) + 1):
        spec = _spec_of(".".join(parts[:end]), places)
        places = list(spec.submodule_search_locations or []) or None
        if spec.loader is not None:
            found.append(_file_of(spec))
        elif end == len(parts) or places is None:
            raise Unresolved("a folder without code")
        if end < len(parts) and places is None:
            raise Unresolved("not found")
    return tuple(found)


def digest_of(files: Iterable[ModuleFile]) -> str:
    """One SHA-256 for the names and contents of all of them."""
    text = "\n".join(f"{file.name} {file.digest}" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()


def imported_by(entry_points: Iterable[str]) -> set[str]:
    """The modules that the source of these entry points imports, directly or not, read without running it.

    Only modules with source below the working folder are followed.
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


def _spec_of(name: str, places: list[str] | None) -> ModuleSpec:
    try:
        spec = PathFinder.find_spec(name, places)
    except ImportRefused as error:
        raise Unresolved("it lies in a location or in the data folder") from error
    except (ImportError, ValueError, OSError) as error:
        raise Unresolved("not found") from error
    if spec is None:
        raise Unresolved("not found")
    for place in (spec.origin, spec.cached, *(spec.submodule_search_locations or ())):
        if place and covering(place):
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
    """What one file imports, by its absolute names; of ``from a import b`` both ``a`` and ``a.b``."""
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
