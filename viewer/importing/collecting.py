"""The collector of garbage, kept from what it need not look at."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Let the collector pass over what is there already, while thousands of small objects are made.

    Without this, a first import spends a third of its time on walks through the whole process.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
