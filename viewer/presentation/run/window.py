"""The window of rows that a page shows, with their lanes."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from viewer.models import Checkpoint, Run
from viewer.presentation.run.branches import (
    Attempts,
    ancestors_among,
    attempt_groups,
    attempt_node,
    attempt_row,
    attempts_of,
    branch_colours,
    edited_checkpoints,
)
from viewer.presentation.run.rows import RowView, RunStyles, folded, row_view, shape_of
from viewer.presentation.run.visible import VisibleRows, Wanted, visible_rows
from viewer.records.annotations import annotations_in
from viewer.records.lineage.drawing import Drawing, GraphNode, draw_dots, draw_window, lane_columns
from viewer.records.lineage.tree import ParentLink


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
        nodes, passing = _muted(nodes, ancestors), _muted(passing, ancestors)
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


def _muted(nodes: Iterable[GraphNode], ancestors: Collection[int]) -> list[GraphNode]:
    """Return the nodes, muted unless they are in ``own`` or cross out a failed attempt."""
    keys = {str(pk) for pk in ancestors}
    return [replace(node, muted=node.key not in keys) for node in nodes]


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
    """Return the nodes of the rows, which have their parents' positions (visible/picking.py)."""
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
