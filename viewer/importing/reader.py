"""The number of reader processes of an import."""

import os

from viewer.stores.reader.pool import MAX_READERS, start_ahead


def prepare_import() -> None:
    """Start the reader processes for a large import that may come soon."""
    start_ahead(reader_count())


def reader_count() -> int:
    """The number of reader processes: one per core. This process writes to the database meanwhile."""
    return min(MAX_READERS, len(os.sched_getaffinity(0)))
