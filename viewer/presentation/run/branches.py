"""The branch picker of a run, and the ancestors of a branch."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Count, Max
from django.db.models.expressions import RawSQL
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from viewer.importing import branch_status
from viewer.models import Checkpoint, Run
from viewer.presentation.run.colors import branch_colours

# Maximum number of branches, the last written first.
MAX_BRANCHES = 100
# The statuses of a branch, in the order in which a run counts them.
STATUS_LABELS: dict[str, str | Promise] = {
    "completed": _("completed"),
    "waiting": _("waiting for an answer"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "interrupted": _("interrupted"),
    "unknown": _("end not recorded"),
    "": _("not finished"),
}


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch in the picker, with its colour and its number of checkpoints; None if that is unknown.

    ``status`` is a label, and empty for the only branch of a run.
    """

    name: str
    colour: int
    count: int | None
    status: str = ""


def status_label(status: str) -> str:
    """Return the label of a branch's status."""
    return str(STATUS_LABELS.get(status, status))


def statuses_text(run: Run) -> str:
    """Return how many branches of a run have which status, if they differ: ``1 completed, 2 failed``."""
    counts = {status: count for status, count in run.branch_statuses.items() if count}
    if len(counts) < 2:
        return ""
    ordered = [status for status in STATUS_LABELS if status in counts]
    return ", ".join(f"{counts[status]} {status_label(status)}" for status in ordered)


def branches_of(run: Run, wanted: str = "") -> list[Branch]:
    """Return the branches of a run whose names contain a text, the last written first.

    At most MAX_BRANCHES.
    """
    colours = branch_colours(run)
    named = run.checkpoints.filter(branch__icontains=wanted) if wanted else run.checkpoints.all()
    counted = named.order_by().values_list("branch").annotate(count=Count("pk"), last=Max("row"))
    found = counted.order_by("-last")[:MAX_BRANCHES]
    is_known = not run.is_partly_listed
    names = [name for name, _count, _last in found]
    statuses: dict[str, str] = {}
    if run.branch_count > 1 and len(run.branch_statuses) == 1:
        statuses = dict.fromkeys(names, status_label(*run.branch_statuses))
    elif run.branch_count > 1 and is_known and run.branch_statuses:
        heads = run.checkpoints.filter(is_branch_head=True, branch__in=names)
        statuses = {head.branch: status_label(branch_status(head)) for head in heads}
    return [
        Branch(name, colours[name], count if is_known else None, statuses.get(name, ""))
        for name, count, _last in found
    ]


def branch_list(run: Run, wanted: str = "") -> dict[str, Any]:
    """Return the context of the branch picker's list: what is found, and how many branches are left out."""
    found = branches_of(run, wanted)
    return {"branches": found, "branches_left_out": branches_left_out(run, found, wanted)}


def branches_left_out(run: Run, shown: Collection[Branch], wanted: str = "") -> int:
    """Return how many more branches of a run have names that contain this text."""
    if len(shown) < MAX_BRANCHES:
        return 0
    named = run.checkpoints.filter(branch__icontains=wanted) if wanted else run.checkpoints.all()
    return named.order_by().values("branch").distinct().count() - len(shown)


def line_of(run: Run, branch: str) -> RawSQL:
    """Return the keys of a branch's checkpoints and of all their ancestors."""
    return _with_ancestors(run, "branch", branch)


def ancestors_among(run: Run, checkpoint_id: str, keys: Collection[int]) -> set[int]:
    """Return the keys among these that belong to the checkpoint or one of its ancestors."""
    line = _with_ancestors(run, "checkpoint_id", checkpoint_id)
    return set(run.checkpoints.filter(pk__in=line).filter(pk__in=keys).values_list("pk", flat=True))


def _with_ancestors(run: Run, column: Literal["branch", "checkpoint_id"], value: str) -> RawSQL:
    """Return the keys of the run's checkpoints with this value, and of all their ancestors."""
    table = Checkpoint._meta.db_table
    # If parents form a cycle, UNION returns each of them once.
    statement = f"""
        WITH RECURSIVE line(id, parent_id) AS (
            SELECT id, parent_id FROM {table} WHERE run_id = %s AND {column} = %s
            UNION SELECT above.id, above.parent_id FROM {table} above JOIN line ON above.id = line.parent_id
        ) SELECT id FROM line
    """  # noqa: S608
    return RawSQL(statement, [run.pk, value])  # noqa: S611
