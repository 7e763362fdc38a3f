"""The branches of a run: their colours, origins, edits, failed attempts, and the branch picker."""

import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from django.db.models import Count, Exists, Max, OuterRef
from django.db.models.expressions import RawSQL
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import all_engines
from viewer.formats import count_text, moment_text
from viewer.models import Annotation, Checkpoint, Job, JobEvent, Run
from viewer.records.annotations import RunAnnotations
from viewer.records.lineage.lanes import GraphNode, Shape
from viewer.records.lineage.tree import ParentLink
from viewer.records.run_rows import branch_status

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
    All have their parents' positions (``_with_parents`` in visible.py).
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
    for _number, group in groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
        yield [row for _number, row in group]


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


# The lane colours of branches, 0 to 7. A branch never changes its colour.


COLOURS = 8


def branch_colours(run: Run) -> dict[str, int]:
    """Return the colour of each branch of a run, in the order in which they started."""
    return {branch: number % COLOURS for number, branch in enumerate(run.branch_names)}


def job_colour(job: Job) -> int:
    """Return the colour of a job's branch: the next free one for a new branch."""
    if job.run is None:
        return 0
    colours = branch_colours(job.run)
    return colours.get(job.branch, len(colours) % COLOURS)


# Where a branch was forked.


def origin_of(checkpoint: Checkpoint) -> Checkpoint | None:
    """Return the nearest ancestor on another branch; None if there is none."""
    parents = dict(checkpoint.run.checkpoints.filter(branch=checkpoint.branch).values_list("pk", "parent_id"))
    seen: set[int] = set()
    at: int | None = checkpoint.pk
    while at in parents and at not in seen:
        seen.add(at)
        at = parents[at]
    if at is None or at in seen:
        return None
    return Checkpoint.objects.select_related("stored_copy", "location").filter(pk=at).first()


# The checkpoints that start with edits: the first ones that a fork wrote.


# The key of a request that keeps the edits without secrets (viewer/records/runner_requests.py).
KEPT_EDITS = "kept"
# Maximum characters of a value in a row.
MAX_VALUE = 40


def edited_checkpoints(run: Run) -> dict[int, str]:
    """Return a label of the edits, by the key of the first checkpoint written after them."""
    edited: dict[tuple[int | None, Any], list[str]] = {}
    # The known inputs of each branch, without secrets.
    inputs: dict[str, dict[str, str]] = {}
    jobs = run.jobs.select_related("checkpoint").only(
        "run", "checkpoint__recorded_branch", "branch", "request", "plan"
    )
    for job in jobs.order_by("created_at"):
        if job.checkpoint is None:
            continue
        before = inputs.get(job.checkpoint.recorded_branch) or dict(run.inputs)
        kept = (job.request.get(KEPT_EDITS) or {}).get("inputs") or {}
        after = {name: _short(value) for name, value in kept.items()}
        if names := _edited_names(job, before, after):
            edited[job.checkpoint_id, job.request.get("branch")] = names
        inputs[job.branch] = before | after
    if not edited:
        return {}
    first = run.checkpoints.filter(parent__in=[parent for parent, _ in edited]).order_by("-row")
    found = (
        (row.pk, edited.get((row.parent_id, row.recorded_branch)))
        for row in first.only("run", "parent", "recorded_branch")
    )
    return {pk: gettext("edited: %(names)s") % {"names": ", ".join(names)} for pk, names in found if names}


def _edited_names(job: Job, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the edits of a job: ``year 2026 → 2032`` for an input with known values, else its name."""
    request: dict[str, Any] = job.request
    titles = {str(step.get("unit")): str(step.get("title")) for step in job.plan if isinstance(step, dict)}
    names = [titles.get(unit, unit) for unit in request.get("outputs") or {}]
    for name in request.get("inputs") or {}:
        change = (f"{_short(before[name])} → " if before.get(name) else "→ ") + after.get(name, "")
        names.append(f"{name} {change}" if name in after else name)
    names += [gettext("state")] if request.get("state") else []
    return names + ([gettext("model")] if (request.get("options") or {}).get("models") else [])


def _short(value: Any) -> str:
    """Return a value on one line, cut to MAX_VALUE characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 4 * MAX_VALUE].split())
    return line if len(line) <= MAX_VALUE else f"{line[: MAX_VALUE - 1]}…"


# Failed attempts: forks and resumes that wrote no checkpoint, by their starting checkpoint.


# Maximum number of attempts of a run, the newest.
MAX_ATTEMPTS = 200
ENDED_EARLY = (Job.Status.FAILED, Job.Status.CANCELLED, Job.Status.INTERRUPTED)

Attempts = dict[int, list[Job]]


def attempts_of(run: Run) -> Attempts:
    """Return the failed attempts of a run, newest first, by the key of their checkpoint."""
    written = JobEvent.objects.filter(job=OuterRef("pk"), kind="checkpoint")
    jobs = run.jobs.filter(
        ~Exists(written), kind__in=("fork", "resume"), status__in=ENDED_EARLY, checkpoint__isnull=False
    )
    found: Attempts = {}
    for job in jobs.select_related("checkpoint", "location").order_by("-created_at")[:MAX_ATTEMPTS]:
        assert job.checkpoint_id
        found.setdefault(job.checkpoint_id, []).append(job)
    return found


def attempt_groups(attempts: Attempts, row: Checkpoint, shows_each: bool) -> list[list[Job]]:
    """Return the groups of attempts that become lines: all in one line, or one line each."""
    jobs = attempts.get(row.pk, [])
    return [[job] for job in jobs] if shows_each else [jobs] if jobs else []


def attempt_row(parent: RowView, jobs: list[Job]) -> RowView:
    """Return the line of these attempts, above the line of their checkpoint."""
    return replace(parent, attempts=tuple(jobs), selected=False, running=False, failed=True, folded=0)


def attempt_node(parent: Checkpoint, number: int, lane: int, colour: int) -> GraphNode:
    """Return a cross on an extra lane. ``number`` identifies the attempt in its window."""
    at: Any = {"parent_row": parent.row, "parent_lane": parent.lane}
    # Rows of a run are never negative.
    return GraphNode(f"attempt-{number}", -1 - number, lane, colour, "failure", ParentLink.RECORDED, **at)


# The branch picker of a run, and the ancestors of a branch.


# Maximum number of branches, the last written first.
MAX_BRANCHES = 100
# The statuses of a branch, in the order in which a run counts them.
STATUS_LABELS: dict[str, str | Promise] = {
    "completed": _("completed"),
    "waiting": _("waiting for an answer"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "interrupted": _("interrupted"),
    "unknown": _("end not recorded"),
    "": _("not finished"),
}


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch in the picker, with its colour and its number of checkpoints; None if that is unknown.

    ``status`` is a label, and empty for the only branch of a run.
    """

    name: str
    colour: int
    count: int | None
    status: str = ""


def status_label(status: str) -> str:
    """Return the label of a branch's status."""
    return str(STATUS_LABELS.get(status, status))


def statuses_text(run: Run) -> str:
    """Return how many branches of a run have which status, if they differ: ``1 completed, 2 failed``."""
    counts = {status: count for status, count in run.branch_statuses.items() if count}
    if len(counts) < 2:
        return ""
    ordered = [status for status in STATUS_LABELS if status in counts]
    return ", ".join(f"{counts[status]} {status_label(status)}" for status in ordered)


def branches_of(run: Run, wanted: str = "") -> list[Branch]:
    """Return the branches of a run whose names contain a text, the last written first.

    At most MAX_BRANCHES.
    """
    colours = branch_colours(run)
    named = run.checkpoints.filter(branch__icontains=wanted) if wanted else run.checkpoints.all()
    counted = named.order_by().values_list("branch").annotate(count=Count("pk"), last=Max("row"))
    found = counted.order_by("-last")[:MAX_BRANCHES]
    is_known = not run.is_partly_listed
    names = [name for name, _count, _last in found]
    statuses: dict[str, str] = {}
    if run.branch_count > 1 and len(run.branch_statuses) == 1:
        statuses = dict.fromkeys(names, status_label(*run.branch_statuses))
    elif run.branch_count > 1 and is_known and run.branch_statuses:
        heads = run.checkpoints.filter(is_branch_head=True, branch__in=names)
        statuses = {head.branch: status_label(branch_status(head)) for head in heads}
    # A branch that was imported meanwhile gets the next free colour.
    free = len(colours) % COLOURS
    return [
        Branch(name, colours.get(name, free), count if is_known else None, statuses.get(name, ""))
        for name, count, _last in found
    ]


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
    return with_ancestors("run_id = %s AND branch = %s", run.pk, branch)


def ancestors_among(run: Run, checkpoint_id: str, keys: Collection[int]) -> set[int]:
    """Return the keys among these that belong to the checkpoint or one of its ancestors."""
    line = with_ancestors("run_id = %s AND checkpoint_id = %s", run.pk, checkpoint_id)
    return set(run.checkpoints.filter(pk__in=line).filter(pk__in=keys).values_list("pk", flat=True))


def with_ancestors(condition: str, *values: int | str) -> RawSQL:
    """Return the keys of the checkpoints that meet a condition in SQL, and of all their ancestors."""
    table = Checkpoint._meta.db_table
    # If parents form a cycle, UNION returns each of them once.
    statement = f"""
        WITH RECURSIVE line(id, parent_id) AS (
            SELECT id, parent_id FROM {table} WHERE {condition}
            UNION SELECT above.id, above.parent_id FROM {table} above JOIN line ON above.id = line.parent_id
        ) SELECT id FROM line
    """  # noqa: S608
    return RawSQL(statement, list(values))  # noqa: S611
