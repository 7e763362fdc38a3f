"""The lines of a run's list, with the trigger of each checkpoint."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from django.utils.timezone import localtime
from django.utils.translation import gettext

from viewer.engines import all_engines
from viewer.formats import count_text, moment_text
from viewer.models import Annotation, Checkpoint, Job
from viewer.records.annotations import RunAnnotations
from viewer.records.lineage.drawing import Shape

# The trigger of a checkpoint: its label, and its shape in the lineage.


def trigger_label(trigger: str) -> str:
    """Return the label of a trigger; of an unknown one, its name without underscores."""
    if not trigger:
        return gettext("written on request")
    label = next((one.trigger_labels[trigger] for one in all_engines() if trigger in one.trigger_labels), "")
    return gettext(label) if label else trigger.replace("_", " ")


def written_label(trigger: str, branch: str, parent_branch: str | None) -> str:
    """Return why a checkpoint was written. A fork writes the first one of its branch."""
    if not trigger and parent_branch not in (None, branch):
        return gettext("forked")
    return trigger_label(trigger)


@lru_cache(maxsize=1)
def failure_suffixes() -> tuple[str, ...]:
    """The endings of the triggers that are failures, of every engine."""
    return tuple(dict.fromkeys(suffix for one in all_engines() for suffix in one.failure_suffixes))


def is_failure(trigger: str) -> bool:
    """Return whether a failure triggered the checkpoint."""
    return trigger.endswith(failure_suffixes())


def shape_of(trigger: str) -> Shape:
    """Return ``failure``, ``end``, ``start`` or ``done``."""
    if is_failure(trigger):
        return "failure"
    if any(one.is_end(trigger) for one in all_engines()):
        return "end"
    return "start" if any(one.is_start(trigger) for one in all_engines()) else "done"


def source_of(trigger: str) -> str:
    """Return the trigger without its outcome: ``loop`` for ``loop_failed``."""
    return trigger.partition("_")[0]


def step_title(checkpoint: Checkpoint) -> str:
    """Return the number of a checkpoint's step and its units, such as ``step 3, collect, review waiting``."""
    step = gettext("step %(step)s") % {"step": count_text(checkpoint.step or 0)}
    units = [
        name if status == "done" else f"{name} {gettext(status)}".strip() for name, status in checkpoint.units
    ]
    return ", ".join([step, *(units or [trigger_label(checkpoint.trigger)])])


def title_of(checkpoint: Checkpoint) -> str:
    """Return a checkpoint's title: the label of its trigger, with the number of the unit."""
    if checkpoint.step is not None:
        return step_title(checkpoint)
    done, total = checkpoint.units_done, checkpoint.units_total
    if not checkpoint.trigger and checkpoint.parent:
        return written_label("", checkpoint.branch, checkpoint.parent.branch)
    labels = (one.numbered_label(checkpoint.entity, checkpoint.trigger) for one in all_engines())
    label = next(filter(None, labels), "") if total else ""
    numbers = {"done": done, "next": min(done + 1, total), "total": total}
    return gettext(label) % numbers if label else trigger_label(checkpoint.trigger)


# Folding consecutive pruned checkpoints into one line of the list.


# Fewer rows are not folded, since nothing would be saved.
FEWEST_FOLDED = 3


def folded(
    rows: Sequence[Checkpoint], passing: Iterable[Checkpoint], at: str, kept: Container[int] = ()
) -> list[list[Checkpoint]]:
    """Return the rows of a window, newest first, grouped. Each group is one line.

    Consecutive pruned rows without a fork between them are folded, except the selected row (``at``), rows
    that show their branch's name, and the keys in ``kept``. ``passing`` are rows above the window.
    All have their parents' positions (``_with_parents`` in window.py).
    """
    children = Counter(row.parent_row for row in (*rows, *passing))  # type: ignore[attr-defined]
    # Count kept rows as forked, so that they are not folded.
    children.update({row.row: 2 for row in rows if row.pk in kept})
    stretches = []
    for stretch in _chains(rows, children, at):
        whole = len(stretch) >= FEWEST_FOLDED
        stretches += [stretch] if whole else [[row] for row in stretch]
    return stretches


def _chains(rows: Sequence[Checkpoint], children: Counter[int | None], at: str) -> Iterator[list[Checkpoint]]:
    """Yield groups of rows that may be folded, and every other row alone."""
    number = 0
    before: Checkpoint | None = None
    numbers = []
    for row in rows:
        if before is None or not (_may_fold(before, children, at) and _follows(before, row, children, at)):
            number += 1
        numbers.append(number)
        before = row
    for _, group in groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
        yield [row for _, row in group]


def _may_fold(row: Checkpoint, children: Counter[int | None], at: str) -> bool:
    is_plain = not row.is_branch_head and row.checkpoint_id != at
    return is_plain and row.is_pruned and children[row.row] <= 1


def _follows(newer: Checkpoint, row: Checkpoint, children: Counter[int | None], at: str) -> bool:
    is_parent = newer.parent_row == row.row and newer.parent_link == Checkpoint.ParentLink.RECORDED  # type: ignore[attr-defined]
    is_alike = newer.branch == row.branch and newer.state == row.state
    return is_parent and is_alike and _may_fold(row, children, at)


# The lines of a run's list.
#
# A page has about a hundred lines, so values that a template would compute for each are computed here.


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
