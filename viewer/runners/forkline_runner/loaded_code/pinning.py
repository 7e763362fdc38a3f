"""Checks that a location is still the one that the run began to write to. Standard library only.

An engine creates missing folders. If a location is renamed or replaced during a run, the engine would
silently create another one at the old path.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


class Moved(OSError):
    """The location was renamed, replaced or removed since the run began to write to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ESTALE, "the location was renamed, replaced or removed", str(path))


class Pin:
    """A folder or file that is held open until the process exits, so that its inode number is not reused.

    It is never closed: closing a database's file would release the locks that SQLite holds on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Open what is at the path, if anything, and hold it open."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return

    def check(self) -> None:
        """Raise Moved if something else, or nothing, is at the path of what is held."""
        if self._descriptor is None:
            return
        try:
            present = self.path.stat()
        except FileNotFoundError:
            raise Moved(self.path) from None
        held = os.fstat(self._descriptor)
        if (present.st_dev, present.st_ino) != (held.st_dev, held.st_ino):
            raise Moved(self.path)


class Pins:
    """The locations that one run writes to: its own, and those of the runs inside it."""

    def __init__(self) -> None:
        self._pins: dict[str, list[Pin]] = {}

    def hold(self, location: str, is_folder: bool) -> None:
        """Hold a location, and for a file also its folder. What is missing is held at the next call."""
        if location not in self._pins:
            path = Path(location).absolute()
            self._pins[location] = [Pin(path)] if is_folder else [Pin(path.parent), Pin(path)]
        for pin in self._pins[location]:
            pin.hold()

    def check(self, location: str) -> None:
        """Raise Moved if the location is no longer the one that is held."""
        for pin in self._pins.get(location, []):
            pin.check()
