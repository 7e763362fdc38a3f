"""Stops the garbage collector from traversing the objects of an import again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# With fewer checkpoints, nothing is gained.
MIN_CHECKPOINTS = 200


@contextmanager
def only_new_garbage(checkpoints: int) -> Iterator[None]:
    """Freeze the objects that exist, while an import of this many checkpoints creates thousands of others.

    Without this, a first import spends a third of its time traversing all objects of the process. Does
    nothing for a few checkpoints: frozen objects count as old afterwards, and old garbage is rarely
    collected, so frequent imports would leak memory.
    """
    if checkpoints < MIN_CHECKPOINTS:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector. Listing one run takes about a second and creates hardly any garbage.

    Traversing the rows of a long run repeatedly takes 40 % of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
