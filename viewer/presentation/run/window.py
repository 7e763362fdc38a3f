"""The rows of a run that a page lists, with their lanes: a window of those that are not collapsed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.http import QueryDict
from django.utils.translation import gettext

from viewer.engines import all_engines, engine_of
from viewer.engines.protocol import kind_of
from viewer.formats import count_text
from viewer.models import Checkpoint, Run, StoredCopy
from viewer.models.runs import body_size
from viewer.presentation.run.branches import (
    Attempts,
    RowView,
    RunStyles,
    ancestors_among,
    attempt_groups,
    attempt_node,
    attempt_row,
    attempts_of,
    branch_colours,
    edited_checkpoints,
    failure_suffixes,
    folded,
    line_of,
    origin_of,
    row_view,
    shape_of,
)
from viewer.records.annotations import annotations_in
from viewer.records.lineage.lanes import (
    Collapse,
    Drawing,
    GraphNode,
    Outline,
    OutlineLine,
    OutlineRow,
    draw_dots,
    draw_window,
    lane_columns,
    outline_of,
)
from viewer.records.lineage.tree import ParentLink
from viewer.records.run_rows import branch_status

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


# The visible rows: a window of those that are not hidden.


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


# The window with the lanes of its rows.


class PassingLine(NamedTuple):
    """The line of a row above the window to a row in it or below it. ``parent`` is the key of that row."""

    branch: str
    lane: int
    colour: int
    parent: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a page. ``top`` is None for the newest; ``newer`` and ``older`` start the next windows."""

    lines: tuple[RowView, ...]
    drawing: Drawing
    columns: int
    top: int | None
    bottom: int
    newer: int | None
    older: int | None
    # The run's newest row, which need not be among these.
    newest: int = 0
    # The lines of rows above the window that reach into it.
    passing: tuple[PassingLine, ...] = ()

    @property
    def start(self) -> str:
        """The query parameter of a window that begins with the same row, after an ampersand."""
        return "" if self.top is None else f"&from={self.top}"

    @property
    def query(self) -> str:
        """The query parameters of the same window."""
        return f"to={self.bottom}{self.start}"


def window_of(run: Run, wanted: Wanted) -> Window:
    """Return the requested rows, newest first."""
    attempts = {} if wanted.without_jobs else attempts_of(run)
    rows = visible_rows(run, wanted, attempts)
    shown = rows.shown
    styles = run_styles(run)
    kept = {*attempts, *(pk for pk, line in rows.lines.items() if line.hidden)}
    at_once = [[row] for row in shown] if wanted.pruned else folded(shown, rows.passing, wanted.at, kept)
    lines, nodes = _lines(run, at_once, attempts, styles, wanted, rows)
    passing = nodes_of(rows.passing, styles)
    if wanted.mutes and wanted.at:
        ancestors = ancestors_among(run, wanted.at, [row.pk for row in (*shown, *rows.passing)])
        lines = tuple(replace(line, muted=line.checkpoint.pk not in ancestors) for line in lines)
        nodes = [replace(node, muted=line.muted) for node, line in zip(nodes, lines, strict=True)]
        above = zip(passing, rows.passing, strict=True)
        passing = [replace(node, muted=row.pk not in ancestors) for node, row in above]
    lanes = run.lane_count + any(line.attempts for line in lines)
    return Window(
        lines=lines,
        drawing=draw_dots(nodes, lanes) if wanted.only else draw_window(nodes, passing, lanes),
        columns=lane_columns(lanes),
        top=rows.top,
        bottom=shown[-1].row if shown else 0,
        newer=rows.newer,
        older=shown[-1].row - 1 if rows.more else None,
        newest=rows.newest,
        passing=tuple(
            PassingLine(row.branch, row.lane, styles.colours.get(row.branch, 0), row.parent_id)
            for row in rows.passing
        ),
    )


def _lines(
    run: Run,
    at_once: Sequence[list[Checkpoint]],
    attempts: Attempts,
    styles: RunStyles,
    wanted: Wanted,
    visible: VisibleRows,
) -> tuple[tuple[RowView, ...], list[GraphNode]]:
    """Return the lines of a window and their nodes, with failed attempts above their checkpoint."""
    lines: list[RowView] = []
    nodes: list[GraphNode] = []
    above = ""
    for rows in at_once:
        line = _with_collapsed(row_view(rows[0], styles, wanted.at, len(rows)), visible, wanted)
        # In a run with one branch, rows need no branch name.
        if run.branch_count > 1 and rows[0].branch != above:
            line = replace(line, begins_stretch=True)
        above = rows[-1].branch
        for jobs in attempt_groups(attempts, rows[0], wanted.attempts):
            lines.append(attempt_row(line, jobs))
            nodes.append(attempt_node(rows[0], len(nodes), run.lane_count, line.colour))
        lines.append(line)
        node = replace(_node_of(rows, styles), hides_rows=line.hidden > 0)
        outline = visible.lines.get(rows[-1].pk)
        nodes.append(replace(node, parent_link=ParentLink(outline.oldest.link)) if outline else node)
    return tuple(lines), nodes


def _with_collapsed(line: RowView, visible: VisibleRows, wanted: Wanted) -> RowView:
    """Return the line with what is collapsed into it, and the link that expands or collapses it."""
    row = line.checkpoint
    outline = visible.lines.get(row.pk)
    hidden = outline.hidden if outline else 0
    if outline:
        line = replace(line, parent=outline.parent.key if outline.parent else None)
    if wanted.only or not (hidden or row.pk in visible.stretches) or line.folded:
        return line
    toggled = wanted.collapsing.toggled(row, hidden > 0, visible.named.get(row.pk, ()))
    return replace(line, hidden=hidden, toggle=toggled.query)


def run_styles(run: Run) -> RunStyles:
    """Return the colours and markers of a run's rows. The newest row of what is being written is live."""
    # A job that waits for its start does not write yet.
    branches = list(run.jobs.under_way().values_list("branch", flat=True))
    heads = run.checkpoints.filter(recorded_branch__in=branches, is_branch_head=True) if branches else ()
    newest = {row.recorded_branch: row.pk for row in sorted(heads, key=lambda row: row.row)}
    if run.is_being_written:
        at_source = run.checkpoints.exclude(Checkpoint.IS_SCRATCH)
        newest |= dict(at_source.order_by("-row").values_list("recorded_branch", "pk")[:1])
    running = frozenset(newest.values())
    return RunStyles(branch_colours(run), edited_checkpoints(run), running, annotations_in(run))


def nodes_of(rows: Iterable[Checkpoint], styles: RunStyles) -> list[GraphNode]:
    """Return the nodes of the rows, which have their parents' positions (visible.py)."""
    return [
        GraphNode(
            key=str(row.pk),
            row=row.row,
            lane=row.lane,
            colour=styles.colours.get(row.branch, 0),
            shape="edit" if row.pk in styles.edited else shape_of(row.trigger),
            parent_link=ParentLink(row.parent_link),
            parent_row=row.parent_row,  # type: ignore[attr-defined]
            parent_lane=row.parent_lane,  # type: ignore[attr-defined]
            running=row.pk in styles.running,
        )
        for row in rows
    ]


def _node_of(rows: list[Checkpoint], styles: RunStyles) -> GraphNode:
    """Return a row's node; a folded group has the parent of its oldest row."""
    (newest,) = nodes_of(rows[:1], styles)
    if len(rows) == 1:
        return newest
    (oldest,) = nodes_of(rows[-1:], styles)
    return replace(newest, shape="fold", parent_row=oldest.parent_row, parent_lane=oldest.parent_lane)


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
        "Checkpoints of this run with a stored copy, called runs included: %(copied)s of %(count)s. No more "
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
