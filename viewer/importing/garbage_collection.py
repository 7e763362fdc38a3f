"""The collector of garbage, kept from what it need not look at."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

WORTH_FREEZING = 200


@contextmanager
def only_new_garbage(checkpoints: int) -> Iterator[None]:
    """Let the collector pass over what is there already, while thousands of small objects are made.

    Without this, a first import spends a third of its time on walks through the whole process. For a few
    ``checkpoints`` it does nothing: what is frozen counts as old afterwards, and old garbage is collected
    only after many objects have grown old. An import every second would keep it for ever.
    """
    if checkpoints < WORTH_FREEZING:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()
