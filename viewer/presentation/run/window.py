"""The window of rows that a page shows, with their lanes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import F, Max, Q, QuerySet

from viewer.annotations import annotations_in
from viewer.lineage.drawing import Drawing, GraphNode, draw_dots, draw_window, lane_columns
from viewer.lineage.tree import Edge
from viewer.models import Checkpoint, Run
from viewer.presentation.run.attempts import Attempts, attempt_groups, attempt_node, attempt_row, attempts_of
from viewer.presentation.run.branches import line_of
from viewer.presentation.run.colors import branch_colours
from viewer.presentation.run.edits import edited_checkpoints
from viewer.presentation.run.folding import folded
from viewer.presentation.run.rows import RowView, RunStyles, row_view
from viewer.presentation.run.triggers import failure_suffixes, shape_of

ROWS = 120
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

    @property
    def query(self) -> str:
        """The query parameters of the same window."""
        return f"to={self.bottom}" + ("" if self.top is None else f"&from={self.top}")


def window_of(run: Run, wanted: Wanted) -> Window:
    """Return the requested rows, newest first."""
    newest = run.checkpoints.aggregate(newest=Max("row"))["newest"] or 0
    top = wanted.top if wanted.top is not None else _top_for_selection(run, wanted, newest)
    rows = _picked(run, wanted).filter(row__lte=newest if top is None else top)
    if wanted.bottom is not None:
        rows = rows.filter(row__gte=wanted.bottom)
    limit = ROWS if wanted.bottom is None else MAX_ROWS
    found = list(_with_parents(rows)[: limit + 1])
    shown = found[:limit]
    styles = run_styles(run)
    # A window requested with its bottom row keeps the link to older rows.
    more = len(found) > limit
    passing = _passing(run, top, wanted)
    attempts = attempts_of(run)
    at_once = [[row] for row in shown] if wanted.pruned else folded(shown, passing, wanted.at, attempts)
    lines, nodes = _lines(run, at_once, attempts, styles, wanted)
    lanes = run.lane_count + any(line.attempts for line in lines)
    return Window(
        lines=lines,
        drawing=_drawing(nodes, passing, styles, wanted, lanes),
        columns=lane_columns(lanes),
        top=top,
        bottom=shown[-1].row if shown else 0,
        newer=None if top is None else min(top + ROWS, newest),
        older=shown[-1].row - 1 if more else None,
        newest=newest,
    )


def _lines(
    run: Run, at_once: Sequence[list[Checkpoint]], attempts: Attempts, styles: RunStyles, wanted: Wanted
) -> tuple[tuple[RowView, ...], list[GraphNode]]:
    """Return the lines of a window and their nodes, with failed attempts above their checkpoint."""
    lines: list[RowView] = []
    nodes: list[GraphNode] = []
    above = ""
    for rows in at_once:
        line = row_view(rows[0], styles, wanted.at, len(rows))
        # The rows of a run of one branch need no name.
        if run.branch_count > 1 and rows[0].branch != above:
            line = replace(line, begins_stretch=True)
        above = rows[-1].branch
        for jobs in attempt_groups(attempts, rows[0], wanted.attempts):
            lines.append(attempt_row(line, jobs))
            nodes.append(attempt_node(rows[0], len(nodes), run.lane_count, line.colour))
        lines.append(line)
        nodes.append(_node_of(rows, styles))
    return tuple(lines), nodes


def _picked(run: Run, wanted: Wanted) -> QuerySet[Checkpoint]:
    rows = run.checkpoints.all()
    if wanted.only == "failed":
        rows = rows.filter(failed())
    if wanted.branch:
        rows = rows.filter(pk__in=line_of(run, wanted.branch))
    return rows


def run_styles(run: Run) -> RunStyles:
    """Return the colours and markers of a run's rows."""
    # A job that waits for its start writes nothing yet.
    branches = list(run.jobs.under_way().values_list("branch", flat=True))
    heads = run.checkpoints.filter(branch__in=branches, is_branch_head=True) if branches else ()
    newest = {row.branch: row.pk for row in sorted(heads, key=lambda row: row.row)}
    running = frozenset(newest.values())
    return RunStyles(branch_colours(run), edited_checkpoints(run), running, annotations_in(run))


def failed() -> Q:
    """Return the condition that a failure triggered the checkpoint."""
    return Q(*(("trigger__endswith", ending) for ending in failure_suffixes()), _connector=Q.OR)


def nodes_of(rows: Iterable[Checkpoint], styles: RunStyles) -> list[GraphNode]:
    """Return the nodes of the rows, which have their parents' positions (``_with_parents``)."""
    return [
        GraphNode(
            key=str(row.pk),
            row=row.row,
            lane=row.lane,
            colour=styles.colours.get(row.branch, 0),
            shape="edit" if row.pk in styles.edited else shape_of(row.trigger),
            edge=Edge(row.parent_link),
            parent_row=row.parent_row,  # type: ignore[attr-defined]
            parent_lane=row.parent_lane,  # type: ignore[attr-defined]
            running=row.pk in styles.running,
        )
        for row in rows
    ]


def _with_parents(rows: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    places = {"parent_row": F("parent__row"), "parent_lane": F("parent__lane")}
    return rows.annotate(**places, parent_branch=F("parent__branch")).order_by("-row")


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


def _drawing(
    nodes: Sequence[GraphNode], passing: Sequence[Checkpoint], styles: RunStyles, wanted: Wanted, lanes: int
) -> Drawing:
    if wanted.only:
        return draw_dots(nodes, lanes)
    return draw_window(nodes, nodes_of(passing, styles), lanes)


def _node_of(rows: list[Checkpoint], styles: RunStyles) -> GraphNode:
    """Return a row's node; a folded group has the parent of its oldest row."""
    (newest,) = nodes_of(rows[:1], styles)
    if len(rows) == 1:
        return newest
    (oldest,) = nodes_of(rows[-1:], styles)
    return replace(newest, shape="fold", parent_row=oldest.parent_row, parent_lane=oldest.parent_lane)
