"""Keep the garbage collector from walking through old objects during an import."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Fewer checkpoints are not worth it.
MIN_CHECKPOINTS = 200


@contextmanager
def only_new_garbage(checkpoints: int) -> Iterator[None]:
    """Freeze the objects that exist, while an import of this many checkpoints creates thousands of others.

    Without this, a first import spends a third of its time walking through the whole process. For a few
    checkpoints it does nothing: frozen objects count as old afterwards, and old garbage is rarely collected,
    so that an import every second would never let it go.
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
