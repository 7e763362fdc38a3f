"""The window of rows that a page shows, with their lanes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    branch_list,
    edited_checkpoints,
    folded,
    origin_of,
    row_view,
    shape_of,
)
from viewer.presentation.run.visible import VisibleRows, Wanted, failed, visible_rows
from viewer.records.annotations import annotations_in, comments_in
from viewer.records.lineage.lanes import Drawing, GraphNode, draw_dots, draw_window, lane_columns
from viewer.records.lineage.tree import FaultCode, ParentLink
from viewer.records.run_rows import branch_status


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


# What the page of a run shows above its views: faults, what is listed, and the checkpoints to jump to.


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
