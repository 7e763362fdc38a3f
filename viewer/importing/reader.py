"""How many processes read for an import."""

import os

from viewer.stores.reader.pool import MAX_READERS, start_ahead


def prepare_import() -> None:
    """Be ready for a large import that may come soon: have the other processes started by then."""
    start_ahead(reader_count())


def reader_count() -> int:
    """How many processes read at once: one for each core. This one writes to the database meanwhile."""
    return min(MAX_READERS, len(os.sched_getaffinity(0)))
