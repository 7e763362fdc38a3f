"""Find the newest files of a folder, without listing everything in a large one."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush, nlargest

from viewer.stores.json_folder import MAX_FOLDER_DEPTH, JsonFolder
from viewer.stores.protocol import Entry, ReadProblem

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
