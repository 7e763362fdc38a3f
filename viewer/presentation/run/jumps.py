"""Checkpoints that a person jumps to: a head, a fork point, and the first failure."""

from viewer.models import Checkpoint, Run
from viewer.presentation.run.origin import origin_of
from viewer.presentation.run.visible.picking import failed


def jump_target(run: Run, to: str, branch: str) -> Checkpoint | None:
    """Return the ``head``, the ``fork`` point or the first ``failure`` of a branch, or of the run.

    None if there is none.
    """
    rows = run.checkpoints.select_related("run").order_by("row")
    own = rows.filter(branch=branch) if branch else rows
    match to:
        case "head":
            return own.last()
        case "failure":
            return own.filter(failed()).first()
        case "fork":
            head = own.last()
            return origin_of(head) if head else None
    return None
