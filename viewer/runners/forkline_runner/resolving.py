"""Finds the files of a module by its name, without importing anything."""

from __future__ import annotations

import ast
import hashlib
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import (
    BuiltinImporter,
    FileFinder,
    FrozenImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any
from zipimport import zipimporter

from forkline_guard import GuardingFinder, ImportRefused, ProtectedFolderFinder, check_spec

# Bounds for reading what the project's own entry points import.
MAX_MODULES = 400
MAX_SOURCE_BYTES = 1024 * 1024
# With these, the __init__ of a package adds the folders of its name in all entries of the import path.
EXTENDING = {"extend_path", "declare_namespace"}
# What a finder of the environment must not do while it is asked: audit events, and their prefixes.
REFUSED_EVENTS = {"import", "exec", "ctypes.dlopen", "os.system", "os.fork", "os.forkpty", "pty.spawn"}
REFUSED_PREFIXES = ("subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "socket.")
_asking = threading.local()


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
    search_path: Sequence[str] | None = None
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        spec = _spec_of(name, search_path)
        if spec.loader is not None:
            found.append(_file_of(spec))
        elif end == len(parts):
            raise Unresolved("a folder without code")
        if end < len(parts):
            search_path = _folders_of(spec, search_path, found[-1] if spec.loader else None)
            if not search_path:
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


def class_in_source(module: str, name: str) -> ast.ClassDef | None:
    """Return the class of this name that a module's own source defines; None for what it only imports."""
    files = files_if_found(module)
    if not files or files[-1].name != module:
        return None
    found = None
    waiting: list[ast.AST] = [parsed(files[-1])]
    while waiting:
        node = waiting.pop(0)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found = child if child.name == name else found
            elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler | ast.With):
                waiting.append(child)
    return found


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
            if file.name == name and is_below(Path(file.path), Path.cwd()):
                waiting += _imports_in(file)
    return seen


def _refuse_standard(top: str) -> None:
    is_named = top in sys.stdlib_module_names or top in sys.builtin_module_names
    if is_named or BuiltinImporter.find_spec(top) or FrozenImporter.find_spec(top):
        raise Unresolved("a module of Python itself")


def _spec_of(name: str, search_path: Sequence[str] | None) -> ModuleSpec:
    """Return what the import of a module would find, asking the finders in the order of the import system.

    ``search_path`` are the folders of the package above; None for the import path. Raises Unresolved.
    """
    try:
        for finder in list(sys.meta_path):
            spec = _found_by(finder, name, search_path)
            if spec is not None:
                check_spec(spec)
                return spec
    except ImportRefused as error:
        raise Unresolved("it lies in a location or in the data folder") from error
    raise Unresolved("not found")


def _found_by(finder: Any, name: str, search_path: Sequence[str] | None) -> ModuleSpec | None:
    if finder is BuiltinImporter or finder is FrozenImporter or isinstance(finder, GuardingFinder):
        return None
    if finder is PathFinder:
        return _in_folders(name, _entries(search_path))
    # Such as the finder of a project that is installed in editable mode.
    return _asked(finder, name, search_path)


def _entries(search_path: Sequence[str] | None) -> Iterator[str]:
    for entry in sys.path if search_path is None else search_path:
        if isinstance(entry, str):
            yield entry or str(Path.cwd())


def _in_folders(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Return what these entries of a path have, as ``PathFinder`` does: it needs the package above imported.

    The folders of a namespace package are joined.
    """
    portions: list[str] = []
    for folder in folders:
        spec = _in_folder(name, folder)
        if spec is not None and spec.loader is not None:
            return spec
        portions += _locations(spec)
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def _in_folder(name: str, folder: str) -> ModuleSpec | None:
    """Return what one entry of a path has. Raises ImportRefused."""
    try:
        importer: Any = pkgutil.get_importer(folder)
    except ImportRefused:
        raise
    except Exception:
        return None
    if importer is None:
        return None
    if isinstance(importer, FileFinder | zipimporter | ProtectedFolderFinder):
        with suppress(OSError, ValueError):
            return importer.find_spec(name)
        return None
    return _asked(importer, name)


def _asked(finder: Any, *arguments: Any) -> ModuleSpec | None:
    """Return what a finder of the environment finds; None if it cannot say without running anything."""
    _audit_once()
    find: Callable[..., ModuleSpec | None] | None = getattr(finder, "find_spec", None)
    if find is None:
        return None
    _asking.is_active = True
    try:
        spec = find(*arguments)
        return spec if isinstance(spec, ModuleSpec) else None
    except ImportRefused:
        raise
    except Exception:
        return None
    finally:
        del _asking.is_active


@cache
def _audit_once() -> None:
    sys.addaudithook(_refuse_while_asking)


def _refuse_while_asking(event: str, arguments: Any) -> None:
    if getattr(_asking, "is_active", False) and (
        event in REFUSED_EVENTS or event.startswith(REFUSED_PREFIXES)
    ):
        raise PermissionError(f"{event} while looking for a module")


def _locations(spec: ModuleSpec | None) -> list[str]:
    """Return the folders of a package. A finder's own kind of list may need the package above imported."""
    try:
        return [str(one) for one in (spec.submodule_search_locations if spec else None) or ()]
    except Exception:
        return []


def _folders_of(
    spec: ModuleSpec, search_path: Sequence[str] | None, file: ModuleFile | None
) -> Sequence[str]:
    """Return the folders in which the modules of a package are looked for."""
    # What a .pth file or an earlier import has made of it.
    if loaded := _loaded_path(spec.name):
        return loaded
    folders = _locations(spec)
    if file is not None and _extends_path(file):
        for entry in _entries(search_path):
            folders += [one for one in _locations(_in_folder(spec.name, entry)) if one not in folders]
    return folders


def _loaded_path(name: str) -> list[str]:
    module = sys.modules.get(name)
    if module is None:
        return []
    try:
        # Reading an attribute could load a lazy module.
        return [str(one) for one in object.__getattribute__(module, "__dict__").get("__path__", ())]
    except Exception:
        return []


def _extends_path(file: ModuleFile) -> bool:
    """Return whether the ``__init__`` of a package makes it a namespace package, as before Python 3.3."""
    return any(
        (node.attr if isinstance(node, ast.Attribute) else node.id) in EXTENDING
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Attribute | ast.Name)
    )


def parsed(file: ModuleFile) -> ast.Module:
    """Return the parsed source; an empty module if it cannot be parsed, or is too long."""
    try:
        source = Path(file.path).read_bytes()
        return ast.parse(source) if len(source) <= MAX_SOURCE_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


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
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, file)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_from(node: ast.ImportFrom, file: ModuleFile) -> str:
    """Return the absolute name of the module from which a statement of this file imports."""
    package = file.name if Path(file.path).stem == "__init__" else file.name.rpartition(".")[0]
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join(part for part in (*above, node.module or "") if part)


def is_below(path: Path, folder: Path) -> bool:
    """Return whether a file is in a folder, and not in an environment there."""
    resolved = path.resolve()
    return resolved.is_relative_to(folder.resolve()) and "site-packages" not in resolved.parts
