"""Sees that a location stays the one that the run began to write to. Standard library only.

The engine makes whatever folder is missing. Where a location was renamed or replaced while a run writes
there, it would begin another one at the old path, and nobody would know.
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
    """A folder or file, held open for as long as the process lives: so no other can get its inode number.

    It is never closed. Closing a database's file would release the locks that SQLite holds on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Hold what stands at the path from now on. Nothing where nothing does."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return

    def check(self) -> None:
        """Raises Moved where something else, or nothing, stands at the path of what is held."""
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
    """The locations that one run writes to: its own, and those of crews inside its flow."""

    def __init__(self) -> None:
        self._pins: dict[str, list[Pin]] = {}

    def hold(self, location: str, is_folder: bool) -> None:
        """Hold a location as it is, and the folder of a file. What is missing is held at the next call."""
        if location not in self._pins:
            path = Path(location).absolute()
            self._pins[location] = [Pin(path)] if is_folder else [Pin(path.parent), Pin(path)]
        for pin in self._pins[location]:
            pin.hold()

    def check(self, location: str) -> None:
        """Raises Moved where the location is not the one that is held any more."""
        for pin in self._pins.get(location, []):
            pin.check()
