"""Runs and checkpoints as documents and lines of the terminal, with their lineage drawn in characters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import groupby, starmap
from operator import attrgetter
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.formats import count_text
from viewer.models import Checkpoint, Location, Run
from viewer.models.runs import progress_text, target_text, total_units
from viewer.presentation.run.branches import status_label
from viewer.records.run_rows import branch_status

# A checkpoint's row as JSON, the same in every output, and the rows of many runs.


# Branches of a run that a list names before its checkpoints.
MAX_BRANCHES = 10
# Rows that are read at once. A query that stays open would keep the database from emptying its log.
MIN_BATCH = 2_000


@dataclass(slots=True)
class ListedCheckpoint:
    """What lists show of a checkpoint. Creating it takes a tenth of the time that a model's row takes."""

    run_id: int
    row: int
    checkpoint_id: str
    parent_checkpoint_id: str
    inferred_parent_id: str | None
    parent_link: str
    branch: str
    recorded_branch: str
    trigger: str
    created_at: datetime | None
    entity: str
    is_open_ended: bool
    name: str
    units_done: int
    units_total: int
    event_count: int
    tokens: int
    size: int
    step: int | None
    turn: int
    units: list[Any]
    state: str
    is_branch_head: bool
    ended_as: str
    pk: int
    run: Run = field(init=False)

    @property
    def location(self) -> Location:
        return self.run.location

    @property
    def total(self) -> int | None:
        """The number of units; None if it is unknown."""
        return total_units(self.run, self.units_done, self.units_total, is_open_ended=self.is_open_ended)

    @property
    def progress(self) -> str:
        """The finished units."""
        return progress_text(self.units_done, self.total)

    @property
    def target(self) -> str:
        """The text by which commands name it."""
        return target_text(self.location, self.run, self.checkpoint_id, self.step)


# The columns that a query returns.
COLUMNS = [
    "parent__checkpoint_id" if one.name == "inferred_parent_id" else one.name
    for one in fields(ListedCheckpoint)
    if one.init
]
Row = Checkpoint | ListedCheckpoint


def runs_of(location: Location) -> Iterator[Run]:
    """The runs of a location, the oldest first, with the columns that lists show."""
    ordered = list(location.runs.order_by("first_at", "pk").values_list("pk", flat=True))
    columns = (
        *("location_id", "parent_id", "key", "uid", "entity", "name", "status", "tokens", "checkpoint_count"),
        *("units_known", "all_units_known"),
    )
    for at in range(0, len(ordered), MIN_BATCH):
        pks = ordered[at : at + MIN_BATCH]
        found = Run.objects.only(*columns).in_bulk(pks)
        for run in (found[pk] for pk in pks if pk in found):
            run.location = location
            yield run


def rows_by_run(runs: Iterable[Run]) -> Iterator[tuple[Run, list[ListedCheckpoint]]]:
    """Each run with its checkpoints, the oldest first. Runs are read as the result is consumed."""
    waiting: list[Run] = []
    count = 0
    for run in runs:
        waiting.append(run)
        count += run.checkpoint_count
        if count >= MIN_BATCH:
            yield from _with_rows(waiting)
            waiting, count = [], 0
    yield from _with_rows(waiting)


def _with_rows(runs: Sequence[Run]) -> Iterator[tuple[Run, list[ListedCheckpoint]]]:
    found = Checkpoint.objects.filter(run__in=[run.pk for run in runs]).order_by("run_id", "row")
    rows = starmap(ListedCheckpoint, found.values_list(*COLUMNS))
    by_run = {pk: list(group) for pk, group in groupby(rows, key=attrgetter("run_id"))}
    for run in runs:
        own = by_run.get(run.pk, [])
        for row in own:
            row.run = run
        yield run, own


def rows_of(run: Run, first: int, most: int) -> list[ListedCheckpoint]:
    """The checkpoints of a run from this row on, at most ``most``, the oldest first."""
    found = Checkpoint.objects.filter(run=run, row__gte=first).order_by("row")
    rows = list(starmap(ListedCheckpoint, found.values_list(*COLUMNS)[:most]))
    for row in rows:
        row.run = run
    return rows


def checkpoint_document(row: Row) -> dict[str, Any]:
    """Its ids as the engine writes them; ``created_at`` is ISO, in UTC.

    ``units_total`` counts what is known of: a run of which nothing says that it has finished may have more.
    """
    return {
        "id": row.checkpoint_id,
        # What addresses have.
        "key": row.pk,
        # What info, fork, diff and the other commands accept.
        "target": row.target,
        "parent_id": _parent_id(row),
        "edge": row.parent_link,
        "branch": row.branch,
        "recorded_branch": row.recorded_branch,
        "trigger": row.trigger,
        "created_at": row.created_at.astimezone(UTC).isoformat() if row.created_at else None,
        "entity": row.entity,
        "name": row.name,
        "units_done": row.units_done,
        "units_total": row.units_done if row.total is None else row.total,
        "event_count": row.event_count,
        "tokens": row.tokens,
        "size": row.size,
        "state": row.state,
        # Where the engine counts steps: the step, and the units of it with their statuses.
        **({} if row.step is None else {"step": row.step, "turn": row.turn, "units": row.units}),
    }


def branch_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The branches of a run as JSON, by the checkpoints with which they end.

    The status is None for a branch that has not ended.
    """
    return [
        {
            "name": head.branch,
            "head": head.checkpoint_id,
            "target": head.target,
            "status": branch_status(head) or None,
        }
        for head in rows
        if head.is_branch_head
    ]


def branch_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The branches of a run with their statuses, one a line; nothing for a run with one branch."""
    heads = [row for row in rows if row.is_branch_head]
    if len(heads) < 2:
        return
    for head in heads[-MAX_BRANCHES:]:
        yield "  " + _("branch %(name)s: %(status)s") % {
            "name": head.branch,
            "status": status_label(branch_status(head)),
        }
    if more := len(heads[:-MAX_BRANCHES]):
        yield "  " + ngettext("%(count)s older branch", "%(count)s older branches", more) % {
            "count": count_text(more)
        }


def _parent_id(row: Row) -> str | None:
    """The recorded parent, even if it is not imported, else the inferred one."""
    if row.parent_checkpoint_id:
        return row.parent_checkpoint_id
    if isinstance(row, ListedCheckpoint):
        return row.inferred_parent_id
    return row.parent.checkpoint_id if row.parent else None
