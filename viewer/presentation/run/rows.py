"""The lines of a run's list.

A page has about a hundred lines, so values that a template would compute for each are computed here.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.utils.timezone import localtime

from viewer.annotations import RunAnnotations
from viewer.formats.moments import moment_text
from viewer.models import Annotation, Checkpoint, Job
from viewer.presentation.run.triggers import is_failure, source_of, written_label

# With more units than this, one bar represents all of them.
MAX_BARS = 12


@dataclass(frozen=True, slots=True)
class RunStyles:
    """The colours and markers of a run's rows."""

    colours: dict[str, int]
    edited: dict[int, str]
    # The newest checkpoints of branches that a job writes at this moment.
    running: frozenset[int]
    annotations: RunAnnotations = field(default_factory=RunAnnotations)


class Moment(NamedTuple):
    """When a checkpoint was created: as ISO 8601, in full, and as a time of day."""

    iso: str
    whole: str
    clock: str


@dataclass(frozen=True, slots=True)
class RowView:
    """One line of the list: a checkpoint and its presentation."""

    checkpoint: Checkpoint
    colour: int
    text: str
    # The unit that the checkpoint is about, or empty.
    subject: str
    failed: bool
    running: bool
    selected: bool
    progress: str
    moment: Moment | None
    # One entry per unit; None if there are too many.
    bars: tuple[str, ...] | None
    # The engine's name for the reason of the step, if it counts steps.
    source: str = ""
    # The number of pruned checkpoints that this line represents, including its own; 0 for an ordinary line.
    folded: int = 0
    # The number of rows that are collapsed into this line.
    hidden: int = 0
    # The parameters that collapse its stretch, or expand it; None if it is too short.
    toggle: str | None = None
    # Whether the line is muted, because it is no ancestor of the selected checkpoint.
    muted: bool = False
    # The key of the visible checkpoint that it continues.
    parent: int | None = None
    # The failed attempts that this line represents.
    attempts: tuple[Job, ...] = ()
    # Whether the line above belongs to another branch, so that this line names its branch.
    begins_stretch: bool = False
    # The annotation of the checkpoint or, for the head of a branch, of the branch.
    annotation: Annotation | None = None
    branch_annotation: Annotation | None = None

    @property
    def classes(self) -> str:
        """The CSS classes of its states, each preceded by a space."""
        return " is-failed" * self.failed + " is-muted" * self.muted


def row_view(row: Checkpoint, styles: RunStyles, at: str, count: int) -> RowView:
    """Return the line of a row, annotated with its parent's branch. ``count`` rows are folded into the line.

    ``at`` is the checkpoint that is selected.
    """
    running, total = row.pk in styles.running, row.total
    why = written_label(row.trigger, row.branch, row.parent_branch)  # type: ignore[attr-defined]
    return RowView(
        checkpoint=row,
        colour=styles.colours.get(row.branch, 0),
        text=styles.edited.get(row.pk) or why,
        subject="" if row.pk in styles.edited else row.subject,
        failed=is_failure(row.trigger),
        running=running,
        selected=row.checkpoint_id == at,
        progress="" if total == 0 else row.progress,
        moment=_moment(row.created_at) if row.created_at else None,
        # Full bars alone would suggest that nothing is left to do.
        bars=() if total is None else bars_of(row.units_done, total, running) if total <= MAX_BARS else None,
        source="" if row.step is None else source_of(row.trigger),
        folded=count if count > 1 else 0,
        parent=row.parent_id,
        annotation=styles.annotations.checkpoints.get(row.checkpoint_id),
        branch_annotation=styles.annotations.branches.get(row.branch) if row.is_branch_head else None,
    )


def bars_of(done: int, total: int, running: bool) -> tuple[str, ...]:
    """Return one CSS class for each unit: is-done, is-running or empty."""
    done = min(done, total)
    rest = total - done
    return (
        ("is-done",) * done
        + (("is-running",) if running and rest else ())
        + ("",) * (rest - (running and rest > 0))
    )


def _moment(at: datetime) -> Moment:
    here = localtime(at)
    return Moment(here.isoformat(), moment_text(here, "full"), moment_text(here, "clock"))
