"""What a listing of a folder remembers, so that the next one reads only names that were added, or nothing.

Adding, removing or renaming a file changes the times of its folder. File systems count time in steps of up
to two seconds, and the clock of a server may differ from ours. So a listing is only trusted if the folder's
times had not changed for longer than such a step when it was made, as the monotonic clock here measures it.
A file whose bytes are overwritten leaves its folder as it is: only a complete listing shows that.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

# Longer than a step of any file system's clock, in seconds.
MAX_STEP_SECONDS = 5.0


@dataclass(slots=True)
class ListedFolder:
    """A folder as it was listed. Times are monotonic, in seconds."""

    fingerprint: str
    # When this fingerprint was first seen, and when the names were last listed.
    seen_since: float
    listed_at: float
    # A hash of the name and inode of each file and folder: 8 bytes instead of some 150.
    hashes: "array[int]"


class FolderCursor:
    """The folders of one location as they were listed, by their keys. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._folders: dict[str, ListedFolder] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._folders))

    def __contains__(self, key: str) -> bool:
        return key in self._folders

    def __len__(self) -> int:
        """The number of files and folders in all of them."""
        return sum(len(folder.hashes) for folder in self._folders.values())

    def is_unchanged(self, key: str, fingerprint: str) -> bool:
        """Whether a folder with this fingerprint certainly has the same files as when it was listed."""
        folder = self._folders[key]
        is_trusted = folder.listed_at - folder.seen_since > MAX_STEP_SECONDS
        return is_trusted and folder.fingerprint == fingerprint

    def add(self, key: str, fingerprint: str, found: Iterable[tuple[str, int]]) -> list[str] | None:
        """Record the names and inodes in a folder, whose fingerprint was determined before they were listed.

        Returns the names that it did not have before; None if one was removed or replaced, or if nothing
        explains why the fingerprint differs.
        """
        now, before = self._clock(), self._folders.get(key)
        by_hash = {hash(one): one[0] for one in found}
        is_same = before is not None and before.fingerprint == fingerprint
        since = before.seen_since if before and is_same else now
        self._folders[key] = ListedFolder(fingerprint, since, now, array("q", by_hash))
        known = set(before.hashes) if before else set[int]()
        new = [name for number, name in by_hash.items() if number not in known]
        is_explained = before is None or is_same or bool(new)
        return new if is_explained and known <= by_hash.keys() else None
