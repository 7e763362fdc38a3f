"""Find stores that a person may want to add: in the allowed folders, and where programs store them.

The search follows no link. What is outside the allowed folders is not opened.
"""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path, PurePath

from django.conf import settings

from viewer.engines import DEFAULT, all_engines, engine_named
from viewer.engines.protocol import KnownStore
from viewer.host.locations.adding import permitted_path
from viewer.host.locations.sources import address_at
from viewer.host.reading.location_reader import open_reader
from viewer.host_requests import FoundStore, UnknownLocation
from viewer.models import Location
from viewer.stores.protocol import Entry, LocationUnreadable
from viewer.stores.safe_open import is_inside, kernel_file_system

# The limits of one search. What is nearest to an allowed folder is found first.
MAX_SECONDS, MAX_FOLDERS, MAX_DEPTH, MAX_FOUND, MAX_DATABASES = 2.0, 5_000, 6, 12, 20
# More checkpoints than this are not counted.
MAX_COUNTED = 1_000
# Paths that one completion offers.
MAX_PATHS = 30
DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SKIPPED = {"node_modules", "site-packages", "__pycache__", "venv", "env"}
_FILE = re.compile(r"\d{8}T\d{6}_[0-9a-f]{8}(_p-\w+)?\.json", re.ASCII)


def find_stores(roots: Sequence[Path]) -> list[FoundStore]:
    """Return stores that are not locations, within the limits: those of known programs first."""
    until = time.monotonic() + MAX_SECONDS
    known = set(Location.objects.here().values_list("path", flat=True))
    found = {one.path: one for one in _default_stores(roots, known)}
    databases: list[Path] = []
    for folder, names in _folders(roots, until):
        if unread := _unread_store(folder, names):
            found[unread.path] = unread
        if store := _json_store(folder, names):
            if store not in known and store not in found:
                found[store] = _counted(store, until)
            continue
        databases += [folder / name for name in names if name.endswith(DATABASE_SUFFIXES)]
        if len(found) >= MAX_FOUND:
            break
    for path in databases[:MAX_DATABASES]:
        is_new = str(path) not in known and str(path) not in found
        if is_new and time.monotonic() < until and (one := _database(path, _name_of(path))):
            found[one.path] = one
    inside = [path for path in found if any(path.startswith(f"{other}/") for other in known | found.keys())]
    return [one for path, one in found.items() if path not in inside][:MAX_FOUND]


def _default_stores(roots: Sequence[Path], known: Collection[str]) -> Iterator[FoundStore]:
    """The stores of programs for this account, except the paths that are known."""
    for engine in all_engines():
        for one in engine.known_stores:
            for path in islice(one.paths(), MAX_FOUND):
                is_new = os.path.realpath(path) not in known
                if is_new and (store := _default_store(path, one.title, engine.title, roots)):
                    yield store


def _default_store(path: Path, name: str, engine: str, roots: Sequence[Path]) -> FoundStore | None:
    """The store of a program at this path. Only its size is read if it is outside the allowed folders."""
    try:
        return _database(permitted_path(path, roots), name)
    except UnknownLocation:
        if not str(path).isprintable() or is_inside(path, settings.DATA_DIR):
            return None
    return FoundStore(str(path), engine, name=name, size=_size(path), setting=_setting(path, roots))


def _setting(path: Path, roots: Sequence[Path]) -> str:
    """The line of the settings that allows the folder of a store as well."""
    return f"CHECKPOINT_ROOTS={os.pathsep.join(map(str, [*roots, path.parent]))}"


def _known_as(path: PurePath) -> KnownStore | None:
    """The known store that a path is, by its end; None if it is none."""
    known = (one for engine in all_engines() for one in engine.known_stores)
    return next((one for one in known if one.is_at(path)), None)


@cache
def _known_folders() -> frozenset[str]:
    """The names of folders in which programs have stores."""
    return frozenset(PurePath(one.path).parts[0] for engine in all_engines() for one in engine.known_stores)


def _name_of(path: PurePath) -> str:
    known = _known_as(path)
    return known.title if known else ""


def _unread_store(folder: Path, names: Sequence[str]) -> FoundStore | None:
    """The folder, if it has files of a store that is never read, and no database in its place."""
    if any(name.endswith(DATABASE_SUFFIXES) for name in names):
        return None
    known = (one for name in names if (one := _known_as(folder / name)) and one.advice)
    one = next(known, None)
    return FoundStore(str(folder), "", name=one.title, is_readable=False) if one else None


def _size(path: Path) -> int:
    """The bytes of a file; 0 if that is not known."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def paths_like(typed: str, roots: Sequence[Path]) -> list[str]:
    """Return the allowed folders and databases that begin with what was typed, in its spelling."""
    if not typed:
        return [f"{root}/" for root in roots[:MAX_PATHS]]
    with suppress(OSError, ValueError, RuntimeError):
        home = str(Path(typed.partition("/")[0]).expanduser()) if typed.startswith("~") else ""
        expanded = home + typed[typed.find("/") :] if home and "/" in typed else home or typed
        parent, _slash, start = expanded.rpartition("/")
        folder = Path(parent or "/").resolve()
        if not any(folder.is_relative_to(root.resolve()) for root in roots):
            above = [f"{root}/" for root in roots if str(root).startswith(expanded)]
            return above[:MAX_PATHS]
        if is_inside(folder, settings.DATA_DIR):
            return []
        spelling = typed[: len(typed) - len(start)]
        with os.scandir(folder) as entries:
            names = [_as_typed(entry) for entry in islice(entries, MAX_FOLDERS) if _is_offered(entry, start)]
        return [f"{spelling}{name}" for name in sorted(filter(None, names))[:MAX_PATHS]]
    return []


def _is_offered(entry: "os.DirEntry[str]", start: str) -> bool:
    is_shown = not entry.name.startswith(".") or "checkpoint" in entry.name or start.startswith(".")
    return is_shown and entry.name.startswith(start) and entry.name.isprintable()


def _as_typed(entry: "os.DirEntry[str]") -> str:
    """The name with a slash for a folder; empty for what cannot be a location."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return f"{entry.name}/"
    except OSError:
        return ""
    return entry.name if entry.name.endswith(DATABASE_SUFFIXES) else ""


def _folders(roots: Sequence[Path], until: float) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folders with the names of their files, breadth first, without those that hold no stores."""
    waiting = deque((root, 0) for root in roots)
    seen, count = set[tuple[int, int]](), 0
    while waiting and count < MAX_FOLDERS and time.monotonic() < until:
        folder, depth = waiting.popleft()
        with suppress(OSError):
            status = folder.stat(follow_symlinks=depth == 0)
            if (status.st_dev, status.st_ino) in seen or kernel_file_system(status.st_dev):
                continue
            seen.add((status.st_dev, status.st_ino))
            if is_inside(folder, settings.DATA_DIR):
                continue
            count += 1
            names, below = [], []
            with os.scandir(folder) as entries:
                for entry in islice(entries, MAX_FOLDERS):
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.name)
                    elif entry.is_file(follow_symlinks=False) and entry.name.isprintable():
                        names.append(entry.name)
            yield folder, names
            if depth < MAX_DEPTH:
                kept = sorted(name for name in below if _may_hold_stores(name))
                waiting.extend((folder / name, depth + 1) for name in kept)


def _may_hold_stores(name: str) -> bool:
    is_hidden = name.startswith(".") and "checkpoint" not in name and name not in _known_folders()
    return not is_hidden and name not in _SKIPPED and name.isprintable()


def _json_store(folder: Path, names: Sequence[str]) -> str:
    """The store of a folder that holds a checkpoint's file; empty if it holds none.

    A store has a folder for each branch, such as ``main`` and ``fork/<name>``, or none.
    """
    matches = (match for name in names if (match := _FILE.fullmatch(name)))
    first = next(matches, None)
    if first is None:
        return ""
    if not first[1]:
        return str(folder)
    return str(folder.parent.parent if folder.parent.name == "fork" else folder.parent)


def _counted(folder: str, until: float) -> FoundStore:
    count, waiting = 0, [folder]
    while waiting and count < MAX_COUNTED and time.monotonic() < until:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in islice(entries, MAX_FOLDERS):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                count += _FILE.fullmatch(entry.name) is not None
    title, has_more = engine_named(DEFAULT).title, bool(waiting) or count > MAX_COUNTED
    return FoundStore(folder, title, min(count, MAX_COUNTED), has_more, name=_name_of(Path(folder)))


def _database(path: Path, name: str = "") -> FoundStore | None:
    """The store in this file; None if it is another one's database, or cannot be read."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with open_reader(address_at(path)) as reader:
            engine = reader.engine()
            if engine:
                count = len(reader.runs(MAX_COUNTED + 1).runs)
            else:
                entries = islice(reader.entries(), MAX_COUNTED + 1)
                count = sum(isinstance(entry, Entry) for entry in entries)
    except (LocationUnreadable, OSError):
        return None
    if not count:
        return None
    return FoundStore(
        str(path),
        engine_named(engine or DEFAULT).title,
        min(count, MAX_COUNTED),
        count > MAX_COUNTED,
        counts_runs=bool(engine),
        name=name,
        size=_size(path),
    )
