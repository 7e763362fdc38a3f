"""Checkpoints that a person jumps to: a head, a fork point, the first failure, and what waits."""

from django.db.models import QuerySet

from viewer.importing import branch_status
from viewer.models import Checkpoint, Run
from viewer.presentation.run.origin import origin_of
from viewer.presentation.run.visible.picking import failed


def offered_jumps(run: Run, branch: str, selected: Checkpoint | None) -> set[str]:
    """Return those of ``head``, ``fork`` and ``failure`` that the run's page offers: they lead somewhere."""
    offered = {"head"}
    # Reading the whole branch, as a jump does, would take too long for each page.
    if selected and _rows(run, selected.branch).values_list("parent_id", flat=True).first():
        offered.add("fork")
    if _failures(run, branch).exists():
        offered.add("failure")
    return offered


def jump_target(run: Run, to: str, branch: str) -> Checkpoint | None:
    """Return the ``head``, the ``fork`` point or the first ``failure`` of a branch, or of the run.

    ``waiting`` is the newest head that waits for an answer, or the newest one. None if there is none.
    """
    rows = _rows(run, branch)
    match to:
        case "head":
            return rows.last()
        case "waiting":
            heads = list(rows.filter(is_branch_head=True))
            waiting = [head for head in heads if branch_status(head) == Run.Status.WAITING]
            return waiting[-1] if waiting else rows.last()
        case "failure":
            return _failures(run, branch).first()
        case "fork":
            head = rows.last()
            return origin_of(head) if head else None
    return None


def _rows(run: Run, branch: str) -> QuerySet[Checkpoint]:
    rows = run.checkpoints.select_related("run").order_by("row")
    return rows.filter(branch=branch) if branch else rows


def _failures(run: Run, branch: str) -> QuerySet[Checkpoint]:
    return _rows(run, branch).filter(failed())
