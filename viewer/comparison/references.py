"""What an address of a comparison names: a checkpoint, or the newest one of a branch or run."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from viewer.importing import import_run
from viewer.models import Checkpoint, Run, uuid_of

_UUID = 36


@dataclass(frozen=True, slots=True)
class Reference:
    """``RUN/CHECKPOINT``, ``RUN@BRANCH`` or ``RUN``. The run is named by its public id."""

    run: uuid.UUID
    checkpoint: str = ""
    branch: str = ""

    def __str__(self) -> str:
        if self.checkpoint:
            return f"{self.run}/{self.checkpoint}"
        return f"{self.run}@{self.branch}" if self.branch else str(self.run)


def reference_in(text: str) -> Reference | None:
    """The reference of this text; None if it is none."""
    run = uuid_of(text[:_UUID])
    if run is None:
        return None
    mark, name = text[_UUID : _UUID + 1], text[_UUID + 1 :]
    if not mark:
        return Reference(run)
    if not name or mark not in "/@":
        return None
    return Reference(run, checkpoint=name) if mark == "/" else Reference(run, branch=name)


def reference_to(checkpoint: Checkpoint) -> Reference:
    """The reference to one checkpoint."""
    return Reference(checkpoint.run.uid, checkpoint=checkpoint.checkpoint_id)


def checkpoint_of(reference: Reference) -> Checkpoint | None:
    """The checkpoint that it names, imported; None if there is none."""
    run = Run.objects.select_related("location__project", "parent").filter(uid=reference.run).first()
    if run is None:
        return None
    import_run(run)
    rows = Checkpoint.objects.filter(run=run).select_related(
        "run__location__project", "location", "stored_copy"
    )
    if reference.checkpoint:
        return rows.filter(checkpoint_id=reference.checkpoint).order_by("-row").first()
    return (rows.filter(branch=reference.branch) if reference.branch else rows).order_by("-row").first()
