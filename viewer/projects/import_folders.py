"""The folder that a project's imports resolve from, found by reading its source. Nothing is imported.

Projects that are run from ``src/<name>`` import their siblings by bare names (``from tools.search import``).
Such a name resolves from neither the project's folder nor its ``src``:

    newsroom/
        pyproject.toml
        src/newsroom/           <- the folder
            main.py             from tools.search import Search
            tools/search.py
"""

import ast
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

NO_PACKAGES = {"src", "tests", "docs"}
MAX_PACKAGES = 100
MAX_FILES = 50
MAX_BYTES = 256 * 1024


def import_folder(project: Path, location: Path) -> Path:
    """The package of the project whose modules import their siblings by bare names.

    If there are several, the one that contains the location; if there is none, the project's folder.
    """
    roots = [project, project / "src"]
    found = [package for package in _packages(roots) if _imports_siblings(package, roots)]
    around = [package for package in found if location.is_relative_to(package)]
    if len(around or found) == 1:
        return (around or found)[0]
    return project


def _packages(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        for name in _names(root):
            folder = root / name
            is_own = name.isidentifier() and name not in NO_PACKAGES and not folder.is_symlink()
            if is_own and folder.is_dir() and not (folder / "pyvenv.cfg").exists():
                yield folder


def _imports_siblings(package: Path, roots: list[Path]) -> bool:
    """Whether a module of the package imports a sibling that only the package itself resolves."""
    siblings = {name for name in map(_module_name, _names(package)) if _resolves(package, name)}
    siblings -= sys.stdlib_module_names
    siblings -= {name for name in siblings if any(_resolves(root, name) for root in roots)}
    files = [package / name for name in _names(package) if name.endswith(".py")][:MAX_FILES]
    return bool(siblings) and any(name in siblings for file in files for name in _imported(file))


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_PACKAGES))
    except OSError:
        return []


def _module_name(name: str) -> str:
    return name.removesuffix(".py")


def _resolves(root: Path, name: str) -> bool:
    if not name.isidentifier():
        return False
    folder = root / name
    return (root / f"{name}.py").is_file() or any(one.endswith(".py") for one in _names(folder))


def _imported(file: Path) -> Iterator[str]:
    """The first names of the file's absolute imports."""
    try:
        if file.is_symlink() or file.stat().st_size > MAX_BYTES:
            return
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
