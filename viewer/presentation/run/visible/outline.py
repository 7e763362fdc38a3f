"""The outline of a run: which of its rows are visible."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from viewer.engines import all_engines
from viewer.lineage.collapsing import Collapse, Outline, OutlineRow, outline_of
from viewer.models import Checkpoint, Run
from viewer.presentation.run.visible.address import Collapsing

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
