"""A thread that indexes whenever something has changed."""

from contextlib import AbstractContextManager

from viewer.changes.background import in_background
from viewer.search.indexing.steps import index_some

# Seconds of one step.
STEP_SECONDS = 0.5
# Seconds between two steps if there is nothing left: many changes are indexed at once.
QUIET_SECONDS = 2.0


def indexing_in_background() -> AbstractContextManager[None]:
    """Index in a thread until the end of the block."""
    return in_background("search-indexing", lambda: index_some(STEP_SECONDS), QUIET_SECONDS)
