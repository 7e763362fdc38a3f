"""Delete the older checkpoints of this run as it writes new ones, if a person chose how many to keep.

Patches: crewai.state.runtime.RuntimeState._chain_lineage
Versions: 1.14.2 and newer
Why: The engine's own pruning deletes whatever else is in the folder or on the branch. It is never used.
Test: tests/runners/runs/test_new_runs.py::test_a_new_crew_prunes_only_its_own_checkpoints
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewai.state.runtime import RuntimeState


def apply(prune: Callable[[str], None]) -> None:
    """Call ``prune`` with the path of each written checkpoint; in SQLite, ``store.db#id``."""
    chain = RuntimeState._chain_lineage

    def chained(self: Any, provider: Any, location: str) -> None:
        chain(self, provider, location)
        prune(str(location))

    RuntimeState._chain_lineage = chained
