"""The rows of a run that a page shows: a window of those that are not hidden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import F, Max, Q, QuerySet

from viewer.annotations import annotations_in
from viewer.lineage.collapsing import OutlineLine
from viewer.models import Checkpoint, Run
from viewer.presentation.run.attempts import Attempts
from viewer.presentation.run.branches import line_of
from viewer.presentation.run.triggers import failure_suffixes
from viewer.presentation.run.visible.address import NOTHING_COLLAPSED, Collapsing
from viewer.presentation.run.visible.outline import SHORTEST_STRETCH, collapsed_run, stretch_lengths

# Three screens. The page loads older rows before they are reached (static/js/older_rows.js).
ROWS = 80
# Maximum length of a window: a page that follows a growing run requests it again, with new rows.
MAX_ROWS = 1000
# The number of newer rows shown above a selection further down.
ROWS_ABOVE_SELECTION = 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested window. ``top`` None is the newest row; ``bottom`` None means ROWS rows."""

    at: str = ""
    only: str = ""
    # Only the line of this branch, from the run's start.
    branch: str = ""
    top: int | None = None
    bottom: int | None = None
    # Whether pruned checkpoints are shown one by one, and failed attempts.
    pruned: bool = False
    attempts: bool = False
    collapsing: Collapsing = NOTHING_COLLAPSED
    # Whether rows that are not ancestors of the selected row are muted.
    mutes: bool = False
    # Whether failed attempts, which are jobs, are left out.
    without_jobs: bool = False


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The rows of a window, newest first, and the rows above it whose lines reach into it."""

    shown: Sequence[Checkpoint]
    passing: Sequence[Checkpoint]
    top: int | None
    newer: int | None
    # Whether there are older rows.
    more: bool
    # The run's newest row, which need not be among these.
    newest: int
    # The number of rows of each stretch, by the key of its newest row.
    stretches: Mapping[int, int]
    # If rows are hidden: the line of each row, and the ids in the address that name its stretch, by key.
    lines: Mapping[int, OutlineLine] = field(default_factory=dict)
    named: Mapping[int, set[str]] = field(default_factory=dict)


def visible_rows(run: Run, wanted: Wanted, attempts: Attempts) -> VisibleRows:
    """Return the requested rows. The selected one and those with failed attempts are never hidden."""
    newest = run.checkpoints.aggregate(newest=Max("row"))["newest"] or 0
    if wanted.collapsing.hides_rows and not wanted.only:
        return _rows_of_outline(run, wanted, newest, attempts)
    return _every_row(run, wanted, newest)


def _every_row(run: Run, wanted: Wanted, newest: int) -> VisibleRows:
    """Return the rows of a window in which none is hidden."""
    top = wanted.top if wanted.top is not None else _top_for_selection(run, wanted, newest)
    rows = _picked(run, wanted).filter(row__lte=newest if top is None else top)
    if wanted.bottom is not None:
        rows = rows.filter(row__gte=wanted.bottom)
    # A window requested with its bottom row keeps the link to older rows.
    found = list(_with_parents(rows)[: _limit(wanted) + 1])
    shown = found[: _limit(wanted)]
    passing = _passing(run, top, wanted)
    newer = None if top is None else min(top + ROWS, newest)
    stretches = {} if wanted.only else stretch_lengths([*passing, *shown])
    return VisibleRows(shown, passing, top, newer, len(found) > len(shown), newest, stretches)


def _rows_of_outline(run: Run, wanted: Wanted, newest: int, attempts: Attempts) -> VisibleRows:
    """Return the rows of a window that are not hidden."""
    selected = set(run.checkpoints.filter(checkpoint_id=wanted.at).values_list("pk", flat=True))
    found = collapsed_run(run, _picked(run, wanted), wanted.collapsing, {*attempts, *selected})
    lines = found.outline.lines
    top = wanted.top if wanted.top is not None else _top_of_outline(lines, wanted, selected)
    above = [line for line in lines if top is not None and line.newest.row > top]
    below = lines[len(above) :]
    if wanted.bottom is not None:
        below = [line for line in below if line.newest.row >= wanted.bottom]
    within = below[: _limit(wanted)]
    reaching = [line for line in above if line.parent and top is not None and line.parent.row <= top]
    found_rows = _with_places(run, [*reaching, *within])
    return VisibleRows(
        shown=[found_rows[line.newest.key] for line in within],
        passing=[found_rows[line.newest.key] for line in reaching],
        top=top,
        newer=lines[max(0, len(above) - ROWS)].newest.row if above else None,
        more=len(below) > len(within),
        newest=newest,
        stretches={line.newest.key: line.stretch for line in within if line.stretch >= SHORTEST_STRETCH},
        lines={line.newest.key: line for line in within},
        named={
            row.pk: found.named.get(found.outline.stretch_of[row.pk], set()) for row in found_rows.values()
        },
    )


def _top_of_outline(lines: Sequence[OutlineLine], wanted: Wanted, selected: set[int]) -> int | None:
    """Return the top row of a window around a selection that is not among the newest lines."""
    if not wanted.at or wanted.branch or wanted.bottom is not None:
        return None
    positions = (at for at, line in enumerate(lines) if line.newest.key in selected)
    position = next(positions, 0)
    return None if position < ROWS else lines[position - ROWS_ABOVE_SELECTION].newest.row


def _with_places(run: Run, lines: Sequence[OutlineLine]) -> dict[int, Checkpoint]:
    """Return the checkpoints of these lines by key, with the positions of the visible rows they continue."""
    keys = [line.newest.key for line in lines]
    found = {row.pk: row for row in _with_parents(run.checkpoints.filter(pk__in=keys))}
    for line in lines:
        row = found[line.newest.key]
        row.parent_row = line.parent.row if line.parent else None  # type: ignore[attr-defined]
        row.parent_lane = line.parent.lane if line.parent else None  # type: ignore[attr-defined]
    return found


def _limit(wanted: Wanted) -> int:
    return ROWS if wanted.bottom is None else MAX_ROWS


def _picked(run: Run, wanted: Wanted) -> QuerySet[Checkpoint]:
    rows = run.checkpoints.all()
    if wanted.only:
        rows = rows.filter(chosen(run, wanted.only))
    if wanted.branch:
        rows = rows.filter(pk__in=line_of(run, wanted.branch))
    return rows


def chosen(run: Run, only: str) -> Q:
    """Return the condition for a run's ``failed`` checkpoints, or its ``starred`` ones and branch heads."""
    if only == "failed":
        return failed()
    own = annotations_in(run)
    branches = [name for name, one in own.branches.items() if one.is_starred]
    return Q(
        checkpoint_id__in=[checkpoint for checkpoint, one in own.checkpoints.items() if one.is_starred]
    ) | Q(is_branch_head=True, branch__in=branches)


def failed() -> Q:
    """Return the condition for checkpoints that a failure triggered."""
    return Q(*(("trigger__endswith", ending) for ending in failure_suffixes()), _connector=Q.OR)


def _with_parents(rows: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    positions = {"parent_row": F("parent__row"), "parent_lane": F("parent__lane")}
    return rows.annotate(**positions, parent_branch=F("parent__branch")).order_by("-row")


def _top_for_selection(run: Run, wanted: Wanted, newest: int) -> int | None:
    """Return the top row of a window around a selection that is not among the newest rows."""
    if not wanted.at or wanted.only or wanted.branch or wanted.bottom is not None:
        return None
    selected = (
        run.checkpoints.filter(checkpoint_id=wanted.at).order_by("-row").values_list("row", flat=True).first()
    )
    if selected is None or newest - selected < ROWS:
        return None
    return selected + ROWS_ABOVE_SELECTION


def _passing(run: Run, top: int | None, wanted: Wanted) -> list[Checkpoint]:
    """Return the rows above the window whose lines reach into it."""
    if top is None or wanted.only:
        return []
    return list(_with_parents(_picked(run, wanted).filter(row__gt=top, parent__row__lte=top)))
