"""Where programs store checkpoints of an engine by default."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A file or folder that a program writes, by its English name.

    ``path`` begins with ``~/`` or an environment variable, or is the end of any path; ``*`` is any name.
    ``advice`` is the template that says why such a store is not read, and what to do; empty if it is read.
    """

    title: str
    path: str
    advice: str = ""

    def paths(self) -> Iterator[Path]:
        """The existing paths of this store for this account. None if only the end of its path is known."""
        with suppress(OSError, RuntimeError):
            pattern = Path(os.path.expandvars(self.path)).expanduser()
            if pattern.is_absolute():
                yield from Path("/").glob(str(pattern.relative_to("/")))

    def is_at(self, path: PurePath) -> bool:
        """Whether the end of a path is that of this store. False if its path begins at a known folder."""
        return self.path[0] not in "~$" and path.match(self.path)
