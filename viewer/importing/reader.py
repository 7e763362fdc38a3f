"""The number of reader processes of an import, and what starts before it."""

import os
import threading

from viewer.engines import all_engines
from viewer.stores.reader.pool import MAX_READERS, start_ahead


def prepare_import() -> None:
    """Start the reader processes for a large import that may come soon, and load the engines' modules."""
    start_ahead(reader_count())
    # Loading them takes several times as long as storing the first rows.
    threading.Thread(target=all_engines, name="load-engines", daemon=True).start()


def reader_count() -> int:
    """The number of reader processes: one per core. This process writes to the database meanwhile."""
    return min(MAX_READERS, len(os.sched_getaffinity(0)))
