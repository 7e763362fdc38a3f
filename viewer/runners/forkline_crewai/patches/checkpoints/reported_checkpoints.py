"""Report each checkpoint when the engine records it as its latest.

Patches: crewai.state.runtime.RuntimeState._chain_lineage
Versions: 1.14.2 and newer
Why: 1.14.2 emits no event for a written checkpoint, and in newer versions none names its parent and trigger.
Test: tests/runners/runs/test_new_runs.py::test_a_new_crew_prunes_only_its_own_checkpoints
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.state.runtime import RuntimeState

from forkline_crewai.patches.checkpoints import serial_writes

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


def apply(reporter: Reporter) -> None:
    """Write a ``checkpoint`` event for each checkpoint."""
    chain = RuntimeState._chain_lineage

    def chained(self: Any, provider: Any, location: str) -> None:
        parent = self._parent_id
        chain(self, provider, location)
        event = getattr(serial_writes.current, "event", None)
        reporter.write(
            "checkpoint",
            id=str(self._checkpoint_id),
            parent=str(parent or ""),
            path=str(location),
            branch=str(self._branch or ""),
            trigger=str(getattr(event, "type", "") or ""),
        )

    RuntimeState._chain_lineage = chained
