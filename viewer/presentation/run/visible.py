"""Which rows of a run's list are visible: windows, filters and collapsed stretches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import urlencode

from django.db.models import F, Max, Q, QuerySet
from django.http import QueryDict

from viewer.engines import all_engines
from viewer.models import Checkpoint, Run
from viewer.presentation.run.branches import Attempts, failure_suffixes, line_of
from viewer.records.annotations import annotations_in
from viewer.records.lineage.lanes import Collapse, Outline, OutlineLine, OutlineRow, outline_of

# The collapsed parts of a run's list, as parameters of the page's address.


# The parameters of an address.
PARAMETERS = ("collapse", "collapsed", "expanded", "collapsed-branch", "started")
# Maximum number of ids or names that an address can have of each kind.
MAX_NAMED = 200


@dataclass(frozen=True, slots=True)
class Collapsing:
    """The collapsed parts of a run. A stretch is named by any checkpoint of it."""

    everything: bool = False
    collapsed: tuple[str, ...] = ()
    # Overrides the others.
    expanded: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    hides_started: bool = False

    @classmethod
    def from_query(cls, query: QueryDict) -> Self:
        """Return the collapsed parts that an address names. Unknown values are ignored."""
        collapsed, expanded, branches = (
            tuple(query.getlist(name)[:MAX_NAMED]) for name in ("collapsed", "expanded", "collapsed-branch")
        )
        everything = query.get("collapse") == "all"
        return cls(everything, collapsed, expanded, branches, query.get("started") == "hidden")

    @property
    def hides_rows(self) -> bool:
        """Whether any row may be hidden."""
        return bool(self.everything or self.collapsed or self.branches or self.hides_started)

    @property
    def query(self) -> str:
        """The parameters, each after an ampersand."""
        pairs = [("collapse", "all")] if self.everything else []
        pairs += [("collapsed", one) for one in self.collapsed]
        pairs += [("expanded", one) for one in self.expanded]
        pairs += [("collapsed-branch", one) for one in self.branches]
        pairs += [("started", "hidden")] if self.hides_started else []
        return f"&{urlencode(pairs)}" if pairs else ""

    def toggled(self, checkpoint: Checkpoint, is_collapsed: bool, named: Collection[str]) -> Self:
        """Return the same with the stretch of a checkpoint expanded or collapsed.

        ``named`` are the ids in the address that already name the stretch.
        """
        collapsed = tuple(one for one in self.collapsed if one not in named)
        expanded = tuple(one for one in self.expanded if one not in named)
        again = replace(self, collapsed=collapsed, expanded=expanded)
        by_rule = self.everything or checkpoint.branch in self.branches
        if is_collapsed:
            return replace(again, expanded=(*expanded, checkpoint.checkpoint_id)) if by_rule else again
        return again if by_rule else replace(again, collapsed=(*collapsed, checkpoint.checkpoint_id))

    def toggled_branch(self, branch: str) -> Self:
        """Return the same with a branch collapsed, or expanded if it was collapsed."""
        others = tuple(one for one in self.branches if one != branch)
        branches = others if branch in self.branches else (*others, branch)
        return replace(self, branches=branches, expanded=())

    def toggled_started(self) -> Self:
        """Return the same with started rows hidden, or shown."""
        return replace(self, hides_started=not self.hides_started)

    @property
    def all_collapsed(self) -> Self:
        """Every stretch collapsed."""
        return replace(self, everything=True, collapsed=(), expanded=(), branches=())

    @property
    def all_expanded(self) -> Self:
        """No stretch collapsed."""
        return replace(self, everything=False, collapsed=(), expanded=(), branches=())


NOTHING_COLLAPSED = Collapsing()


# The outline of a run: which of its rows are visible.


# Shorter stretches have no button.
SHORTEST_STRETCH = 3


@dataclass(frozen=True, slots=True)
class CollapsedRun:
    """The outline of a run, and the ids in the address that name each stretch, by its newest row."""

    outline: Outline
    named: dict[int, set[str]]


def collapsed_run(
    run: Run, rows: QuerySet[Checkpoint], collapsing: Collapsing, kept: Collection[int]
) -> CollapsedRun:
    """Return the outline of these rows of a run. ``kept`` are keys of checkpoints that are never hidden."""
    columns = ("pk", "row", "lane", "parent_id", "branch", "trigger", "parent_link")
    outline_rows = [OutlineRow._make(row) for row in rows.order_by("-row").values_list(*columns)]
    wanted = {*collapsing.collapsed, *collapsing.expanded}
    ids = dict(run.checkpoints.filter(checkpoint_id__in=wanted).values_list("pk", "checkpoint_id"))
    collapse = Collapse(
        branches=collapsing.branches,
        stretches=[pk for pk, one in ids.items() if one in collapsing.collapsed],
        everything=collapsing.everything,
        expanded=[pk for pk, one in ids.items() if one in collapsing.expanded],
        triggers=_start_triggers(outline_rows) if collapsing.hides_started else (),
        kept=kept,
    )
    outline = outline_of(outline_rows, collapse)
    named: dict[int, set[str]] = {}
    for pk, one in ids.items():
        if pk in outline.stretch_of:
            named.setdefault(outline.stretch_of[pk], set()).add(one)
    return CollapsedRun(outline, named)


def stretch_lengths(rows: Sequence[Checkpoint]) -> dict[int, int]:
    """Return the number of rows of each stretch of a window, by the key of its newest row."""
    outline_rows = [
        OutlineRow(row.pk, row.row, row.lane, row.parent_id, row.branch, row.trigger, row.parent_link)
        for row in sorted(rows, key=lambda row: -row.row)
    ]
    lines = outline_of(outline_rows, Collapse()).lines
    return {line.newest.key: line.stretch for line in lines if line.stretch >= SHORTEST_STRETCH}


def _start_triggers(rows: Sequence[OutlineRow]) -> frozenset[str]:
    found = {row.trigger for row in rows}
    return frozenset(one for one in found if any(engine.is_start(one) for engine in all_engines()))


# The rows of a run that a page shows: a window of those that are not hidden.


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
