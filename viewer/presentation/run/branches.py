"""The branch picker of a run, and the ancestors of a branch."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Count, Max
from django.db.models.expressions import RawSQL

from viewer.models import Checkpoint, Run
from viewer.presentation.run.colors import branch_colours

# Maximum number of branches, the last written first.
MAX_BRANCHES = 100


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch in the picker, with its colour and its number of checkpoints; None if that is unknown."""

    name: str
    colour: int
    count: int | None


def branches_of(run: Run, wanted: str = "") -> list[Branch]:
    """Return the branches of a run whose names contain a text, the last written first.

    At most MAX_BRANCHES.
    """
    colours = branch_colours(run)
    named = run.checkpoints.filter(branch__icontains=wanted) if wanted else run.checkpoints.all()
    counted = named.order_by().values_list("branch").annotate(count=Count("pk"), last=Max("row"))
    found = counted.order_by("-last")[:MAX_BRANCHES]
    is_known = not run.is_partly_listed
    return [Branch(name, colours[name], count if is_known else None) for name, count, _ in found]


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
