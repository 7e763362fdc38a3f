"""What is new at a location, found without listing everything."""

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heappop, heappush, nlargest

from viewer.stores.json_folder import MAX_FOLDER_DEPTH, JsonFolder, KnownFolders
from viewer.stores.protocol import Entry, ReadProblem

# Find the newest files of a folder, without listing everything in a large one.


# Once this many names are listed, the folders that changed before the others are left out.
MAX_NAMES = 10_000


def newest_files(folder: JsonFolder, limit: int) -> list[Entry | ReadProblem]:
    """The last files by name, in the order of their names. The name of a checkpoint begins with its time.

    Folders are listed in the order in which they last changed, until there are enough names. Folders that
    cannot be listed are left out: ``JsonFolder.entries`` lists them as problems.
    """
    found: list[tuple[str, str]] = []
    listed = 0
    # Minus the time at which a folder changed, its depth and its key.
    pending = [(0, 0, "")]
    while pending and (listed < MAX_NAMES or len(found) < limit):
        _changed, depth, key = heappop(pending)
        with suppress(OSError):
            names = os.listdir(folder.descriptor(key.rstrip("/")))  # noqa: PTH208
            files = [name for name in names if name.endswith(".json")]
            listed += len(files)
            found += ((name, key) for name in nlargest(limit, files))
            if len(files) < len(names) and depth < MAX_FOLDER_DEPTH:
                for name, changed in _folders_among(folder, names, key):
                    heappush(pending, (-changed, depth + 1, f"{key}{name}/"))
    newest = nlargest(limit, found)
    return [item for name, key in reversed(newest) if (item := folder.entry(key + name))]


def _folders_among(folder: JsonFolder, names: Sequence[str], key: str) -> Iterator[tuple[str, int]]:
    """The names in a folder that are names of folders, and when those changed. Links are not followed."""
    for name in (name for name in names if not name.endswith(".json")):
        # Another program may have removed one of them since they were listed.
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=folder.descriptor(key.rstrip("/")), follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield name, status.st_mtime_ns


# Find the files that were added to a folder since it was listed.


def added_files(folder: JsonFolder, known: KnownFolders) -> list[str] | None:
    """The keys of files that were added since the folders were listed. Adds them to ``known``.

    None if only a complete listing can show what has changed. ``known`` must not be used again then.
    """
    added: list[str] = []
    pending = list(known)
    try:
        while pending:
            key = pending.pop()
            fingerprint = folder.fingerprint(key)
            if key in known and known.is_unchanged(key, fingerprint):
                continue
            names = known.add(key, fingerprint, folder.names(key))
            if names is None or key.count("/") >= MAX_FOLDER_DEPTH - 1:
                return None
            keys = [f"{key}/{name}" if key else name for name in names]
            pending += [one.rstrip("/") for one in keys if one.endswith("/")]
            added += [one for one in keys if not one.endswith("/")]
    except OSError:
        return None
    return added


# Parts of the list of runs, so that a store lists only the parts that differ from what is stored.
#
# The digest of a run's key names its part. The digest of a part is made from the keys of its runs and their
# newest checkpoints, in the order of the keys. A query of ``PostgresqlTables`` computes the same digests.


def part_of(key: str) -> str:
    """The part that a run with this key is in."""
    return _digest(key)[:2]


def digests_of(heads: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The digest of each part that has runs, from their keys and newest checkpoints."""
    parts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, head in heads:
        parts[part_of(key)].append((key, head))
    return {
        part: _digest("\n".join(f"{key} {head}" for key, head in sorted(runs)))
        for part, runs in parts.items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
