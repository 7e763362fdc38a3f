"""What the head of a run shows above its list, its lineage and its timeline alike."""

from typing import Any

from viewer.annotations import annotations_in
from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.models import Run, Sweep
from viewer.presentation.run.branches import branch_list

# Maximum number of the newest sweeps that are named.
MAX_SWEEPS = 5


def run_head(run: Run) -> dict[str, Any]:
    """Return the context of the head of a run: its annotation, sweeps, branches, and what its menu offers."""
    kind = kind_of(engine_of(run.location), run.entity)
    return {
        "annotation": annotations_in(run).run,
        "groups": Sweep.objects.filter(checkpoint__run=run)[:MAX_SWEEPS],
        # A called run starts only within its caller.
        "can_run_again": kind.is_runnable and run.parent_id is None,
        **branch_list(run),
    }
