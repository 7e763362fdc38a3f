"""The import guard: nothing in a protected folder or file is imported.

Three layers, because code that runs later can change the import system:

- a finder at the start of ``sys.meta_path`` checks what every other finder finds;
- a path hook handles protected entries of ``sys.path`` and of a package's ``__path__``;
- an audit hook, which cannot be removed, checks the files of executed code, native libraries and compiled
  modules.

A job that runs a recorded commit has a checkout instead of the project's working tree. The working tree is
protected as well, but for the environment in it, and the checkout is allowed although it is in the data
folder.
Of an allowed and a protected folder that contain a path, the nearer one decides.

The kernel resolves the path at every check. Only the results for folders are cached, by path, device and
inode: a folder that is replaced, or becomes a link, has another inode and is checked again.

Standard library only, and the syntax of Python 3.8: any Python that a project starts may load it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from typing import Any

# Names the file that lists the protected paths, as a JSON array.
VARIABLE = "FORKLINE_GUARD"
LOADERS: Any = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
_paths: set[str] = set()
_identities: set[tuple[int, int]] = set()
_allowed: set[str] = set()
# The working tree that a checkout replaces, as written and with links resolved.
_replaced: set[str] = set()
# Modules that may only be imported from one file with one content: path and SHA-256.
_pins: dict[str, tuple[str, str]] = {}
# The protected path that contains a folder, or an empty string, by the folder's path, device and inode.
_folders: dict[tuple[str, int, int], str] = {}
# A descriptor that resolves a path without reading it. Linux only.
_O_PATH: int = getattr(os, "O_PATH", 0)
_is_installed = False


class ImportRefused(ImportError):
    """The module is in a location or in Forkline's data folder, or is not what a person accepted."""


def install_from(environment: Mapping[str, str]) -> None:
    """Protect the paths in the file that the environment variable names. Raises OSError, ValueError."""
    name = environment.get(VARIABLE)
    if name:
        import json

        with open(name, encoding="utf-8") as file:
            found = json.load(file)
        if isinstance(found, dict):
            replace(found["working_tree"], found["checkout"])
            found = found["protected"]
        protect(found)


def protect(paths: Iterable[str]) -> None:
    """Refuse imports from these folders and files."""
    for path in paths:
        for form in _forms(path):
            _paths.add(form)
            identity = _identity(form)
            if identity:
                _identities.add(identity)
    _folders.clear()
    _install()
    for entry in list(sys.path_importer_cache):
        if covering(entry):
            del sys.path_importer_cache[entry]


def replace(working_tree: str, checkout: str) -> None:
    """Import from the checkout instead of the working tree, to which installed packages may refer."""
    import sysconfig

    installed = sysconfig.get_paths()
    names = ("purelib", "platlib", "stdlib", "platstdlib", "scripts")
    # The package of the runners may be in a working tree as well.
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for path in (checkout, ours, *(installed[name] for name in names if name in installed)):
        _allowed.update(_forms(path))
    _replaced.update(_forms(working_tree))
    protect([working_tree])
    real = _resolved(working_tree)
    for number, entry in reversed(list(enumerate(sys.path))):
        if covering(entry or os.getcwd()) in _replaced:
            below = os.path.relpath(_resolved(os.path.abspath(entry)), real)
            found = os.path.normpath(os.path.join(checkout, below))
            sys.path[number : number + 1] = [found] if os.path.isdir(found) else []


def replaced_module() -> tuple[str, str]:
    """Return the name and file of a loaded module of the working tree that was replaced, or empty texts."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and covering(path) in _replaced:
            return name, path
    return "", ""


def pin(name: str, path: str, digest: str) -> None:
    """Allow this module only from this file and with this SHA-256."""
    _pins[name] = (path, digest)
    _install()


def covering(path: Any) -> str:
    """Return the protected path that contains this one, by name or through links, or an empty string."""
    if not _paths:
        return ""
    try:
        forms = _forms(os.fsdecode(path))
    except (OSError, TypeError, ValueError):
        return ""
    for form in forms:
        if form in _allowed:
            continue
        found = form if _is_protected(form) else _covering_folder(os.path.dirname(form))
        if found:
            return found
    return ""


def refused(name: str, path: Any) -> ImportRefused:
    """Return the error for a module at this path."""
    if covering(path) in _replaced:
        return ImportRefused(
            f"{name} is not imported: {path} is the present code of the project, and a recorded commit runs."
            " The commit may not have this module, or an installed package refers to the project's folder",
            name=name,
            path=str(path),
        )
    return ImportRefused(
        f"{name} is not imported: {path} lies in {covering(path)}, which holds checkpoints or our own data",
        name=name,
        path=str(path),
    )


def check_spec(spec: ModuleSpec) -> None:
    """Raise ImportRefused if a file or folder of this module is protected."""
    loader: Any = spec.loader
    found = {spec.origin, spec.cached, getattr(loader, "path", None), getattr(loader, "archive", None)}
    found.update(spec.submodule_search_locations or ())
    for path in found:
        if isinstance(path, str) and covering(path):
            raise refused(spec.name, path)


class GuardingFinder:
    """Asks the other finders, and refuses protected modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return what the other finders find, or None. Raises ImportRefused."""
        for finder in list(sys.meta_path):
            find: Any = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                check_spec(spec)
                return _pinned(spec)
        return None


class ProtectedFolderFinder:
    """The finder of a protected entry of the import path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find_spec(self, name: str, target: Any = None) -> None:
        """Return None if the folder has no such module. Raises ImportRefused if it has one."""
        spec = FileFinder(self.path, *LOADERS).find_spec(name) if os.path.isdir(self.path) else None
        # A folder without code may be a namespace package, which is harmless.
        if spec is not None and spec.loader is not None:
            raise refused(name, spec.origin)

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""


class PinnedLoader(SourceFileLoader):
    """Compiles only the source that a person accepted."""

    def get_code(self, fullname: str) -> Any:
        """Return the module's code, compiled from the checked bytes. Raises ImportRefused."""
        import hashlib

        data = self.get_data(self.path)
        if hashlib.sha256(data).hexdigest() != _pins[fullname][1]:
            raise ImportRefused(f"{self.path} has changed since it was checked", name=fullname)
        return self.source_to_code(data, self.path)


def _pinned(spec: ModuleSpec) -> ModuleSpec:
    if spec.name in _pins:
        path = _pins[spec.name][0]
        if spec.origin != path or not isinstance(spec.loader, SourceFileLoader):
            raise ImportRefused(
                f"{spec.name} was checked at {path}, and is now {spec.origin}", name=spec.name
            )
        spec.loader = PinnedLoader(spec.name, path)
    return spec


def _hook(path: str) -> ProtectedFolderFinder:
    if covering(path or os.getcwd()):
        return ProtectedFolderFinder(path or os.getcwd())
    raise ImportError("not protected")


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "exec":
        path = getattr(arguments[0], "co_filename", "")
        is_code = bool(path) and path[0] != "<"
    elif event in ("import", "open", "ctypes.dlopen"):
        path = arguments[1] if event == "import" else arguments[0]
        is_code = isinstance(path, (str, bytes)) and bool(path)
        if is_code and event == "open":
            # Nothing can be read from a descriptor with O_PATH, which _resolved opens.
            is_read = not arguments[2] & _O_PATH
            is_code = is_read and os.fsdecode(path).endswith((".pyc", ".pyo"))
        elif is_code:
            is_code = os.sep in os.fsdecode(path)
    else:
        return
    if is_code and covering(path):
        raise refused("code", os.fsdecode(path))


def _install() -> None:
    global _is_installed  # noqa: PLW0603
    if not _is_installed:
        _is_installed = True
        sys.meta_path.insert(0, GuardingFinder())
        sys.path_hooks.insert(0, _hook)
        sys.addaudithook(_audit)
        importlib.invalidate_caches()


def _forms(path: str) -> set[str]:
    """Return the absolute path, as written and with links resolved."""
    written = os.path.join(os.getcwd(), path)
    return {os.path.normpath(written), _resolved(written)}


def _resolved(path: str) -> str:
    """Return the path without links, resolved by the kernel in three calls where that is possible."""
    if not _O_PATH:
        return os.path.realpath(path)
    try:
        descriptor = os.open(path, _O_PATH)
    except OSError:
        # Nothing exists at the path, but one of its folders may be a link.
        return os.path.realpath(path)
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.path.realpath(path)
    finally:
        os.close(descriptor)
    return found if os.path.isabs(found) else os.path.realpath(path)


def _covering_folder(folder: str) -> str:
    """Return the protected path that is or contains this folder, or an empty string."""
    identity = _identity(folder)
    key = (folder, *identity) if identity else None
    if key is None or key not in _folders:
        found = next((one for one in _with_parents(folder) if one in _allowed or _is_protected(one)), "")
        if found in _allowed:
            found = ""
        if key is None:
            return found
        _folders[key] = found
    return _folders[key]


def _is_protected(path: str) -> bool:
    return path in _paths or (bool(_identities) and _identity(path) in _identities)


def _with_parents(path: str) -> Iterator[str]:
    yield path
    parent = os.path.dirname(path)
    while parent != path:
        yield parent
        path, parent = parent, os.path.dirname(parent)


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode, which identify a file under any name: bind mounts, other letter case."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino)
