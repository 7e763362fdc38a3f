"""Decodes the bodies of a thread's checkpoints for its index."""

from collections.abc import Callable, Mapping
from typing import Any

from viewer.engines.langgraph.threads.rows import IndexedRow

# The most bytes of bodies that are decoded to index a thread, for facts that only bodies record.
MAX_INDEXED_BYTES = 32 * 1024 * 1024


class Bodies:
    """Decodes the bodies of a thread for its index, up to a number of bytes."""

    def __init__(self, values: Callable[[str, IndexedRow], Mapping[str, Any]], thread: str) -> None:
        self._values, self._thread = values, thread
        self._left = MAX_INDEXED_BYTES
        self._last: tuple[IndexedRow, Mapping[str, Any]] | None = None

    def __call__(self, row: IndexedRow) -> Mapping[str, Any]:
        if self._last is not None and self._last[0] is row:
            return self._last[1]
        self._left -= row.size
        values = self._values(self._thread, row) if self._left >= 0 else {}
        self._last = (row, values)
        return values
