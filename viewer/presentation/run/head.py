"""What the page of a run shows above its views: faults, what is listed, and the checkpoints to jump to."""

from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.formats import count_text
from viewer.models import Checkpoint, Run, StoredCopy, Sweep
from viewer.models.runs import body_size
from viewer.presentation.run.branches import branch_list, origin_of
from viewer.presentation.run.visible import failed
from viewer.records.annotations import annotations_in
from viewer.records.discussion import comments_in
from viewer.records.lineage.tree import FaultCode
from viewer.records.run_rows import branch_status

# Sentences about the lineage problems of a run.


LABELS: dict[FaultCode, str | Promise] = {
    FaultCode.SELF_PARENT: _(
        "A checkpoint names itself as its parent: %(ids)s. It is shown without a parent."
    ),
    FaultCode.CYCLE: _(
        "The parents of these checkpoints form a cycle: %(ids)s. The earliest one is shown without a parent."
    ),
    FaultCode.DUPLICATE_ID: _("Several checkpoints have the same id: %(ids)s. Each is shown."),
}


def fault_texts(run: Run) -> list[str]:
    """Return a sentence for each problem."""
    return [
        str(LABELS[FaultCode(fault["code"])]) % {"ids": _named(fault["ids"], fault["count"])}
        for fault in run.lineage_faults
    ]


def _named(ids: list[str], count: int) -> str:
    named, more = ", ".join(ids), count - len(ids)
    return (
        gettext("%(ids)s and %(count)s more") % {"ids": named, "count": count_text(more)}
        if more > 0
        else named
    )


# The sentences on the page of a run with more checkpoints than are listed or copied.


def listing_texts(run: Run) -> list[str]:
    """A sentence if only the newest checkpoints of the run are listed, else nothing."""
    most = kind_of(engine_of(run.location), run.entity).max_listed
    if not most:
        return []
    top = run.parent or run
    listed = Run.objects.filter(Q(pk=top.pk) | Q(parent=top)).aggregate(count=Sum("checkpoint_count"))
    if (listed["count"] or 0) < most:
        return []
    words = gettext("Only the newest %(count)s checkpoints of this run, called runs included, are listed.")
    return [words % {"count": count_text(most)}]


def copy_texts(run: Run) -> list[str]:
    """A sentence if the limit of stored copies is reached before all checkpoints have one, else nothing."""
    top = run.parent or run
    if not top.copies_digest:
        return []
    rows = Checkpoint.objects.filter(Q(run=top) | Q(run__parent=top))
    rows = rows.exclude(Checkpoint.IS_SCRATCH).order_by()
    copies = StoredCopy.objects.with_body().filter(checkpoint__in=rows)
    found, count = copies.aggregate(count=Count("pk"), size=Sum(body_size())), rows.count()
    is_full = found["count"] >= settings.COPIES_MAX_CHECKPOINTS
    is_full |= (found["size"] or 0) >= settings.COPIES_MAX_BYTES
    if not is_full or found["count"] >= count:
        return []
    words = gettext(
        "%(copied)s of %(count)s checkpoints of this run, called runs included, have a stored copy. No more "
        "are made, because the limit is reached."
    )
    return [words % {"copied": count_text(found["count"]), "count": count_text(count)}]


# Checkpoints that a person jumps to: a head, a fork point, the first failure, and what waits.


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


# What the head of a run shows above its list, its lineage and its timeline alike.


# Maximum number of the newest sweeps that are named.
MAX_SWEEPS = 5


def run_head(run: Run) -> dict[str, Any]:
    """Return the context of the head of a run: its annotation, sweeps, branches, and what its menu offers."""
    kind = kind_of(engine_of(run.location), run.entity)
    return {
        "annotation": annotations_in(run).run,
        # Called if several people use this server.
        "open_discussions": lambda: comments_in(run).open_discussions().count(),
        "groups": Sweep.objects.filter(checkpoint__run=run)[:MAX_SWEEPS],
        # A called run starts only within its caller.
        "can_run_again": kind.starts_new_runs and run.parent_id is None,
        **branch_list(run),
    }
