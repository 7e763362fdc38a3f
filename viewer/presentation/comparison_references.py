"""What an address of a comparison names, and the ancestors that checkpoints share."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from django.db.models.expressions import RawSQL

from viewer.host_requests import ImportRun, ask
from viewer.models import Checkpoint, Run, uuid_of

# The line of ancestors of a checkpoint, and the nearest that several checkpoints share.


Line = list[Checkpoint]


def line_of(checkpoint: Checkpoint) -> Line:
    """The checkpoint and its ancestors, oldest first, without their stored copies."""
    table = Checkpoint._meta.db_table
    # Where parents go round in a circle, UNION takes each once.
    statement = f"""
        WITH RECURSIVE line(id, parent_id) AS (
            SELECT id, parent_id FROM {table} WHERE id = %s
            UNION SELECT above.id, above.parent_id FROM {table} above JOIN line ON above.id = line.parent_id
        ) SELECT id FROM line
    """  # noqa: S608
    found = Checkpoint.objects.filter(pk__in=RawSQL(statement, [checkpoint.pk]))  # noqa: S611
    return list(found.only("pk", "branch", "created_at", "row", "parent_id").order_by("row"))


def nearest_ancestors(checkpoint: Checkpoint, count: int) -> Line:
    """The checkpoint and its nearest ancestors, newest first, without their copies."""
    table = Checkpoint._meta.db_table
    # The depth ends the search where parents go round in a circle.
    statement = f"""
        WITH RECURSIVE line(id, parent_id, depth) AS (
            SELECT id, parent_id, 1 FROM {table} WHERE id = %s
            UNION ALL SELECT above.id, above.parent_id, line.depth + 1
            FROM {table} above JOIN line ON above.id = line.parent_id WHERE line.depth < %s
        ) SELECT id FROM line
    """  # noqa: S608
    found = Checkpoint.objects.filter(pk__in=RawSQL(statement, [checkpoint.pk, count]))  # noqa: S611
    rows = {row.pk: row for row in found.only("pk", "parent_id", "size")}
    line: Line = []
    at: int | None = checkpoint.pk
    while at in rows:
        row = rows.pop(at)
        line.append(row)
        at = row.parent_id
    return line


def common_ancestor(lines: Sequence[Line]) -> int | None:
    """The key of the newest checkpoint in all lines; None if they share none."""
    shared = set.intersection(*({one.pk for one in line} for line in lines)) if lines else set()
    return next((one.pk for one in reversed(lines[0]) if one.pk in shared), None) if shared else None


def since(line: Line, ancestor: int | None) -> Line:
    """The part of a line from this ancestor on; the whole line without one."""
    at = next((at for at, one in enumerate(line) if one.pk == ancestor), 0)
    return line[at:]


def duration_of(line: Line, sessions: Sequence[tuple[float, float]] = ()) -> timedelta:
    """The time between the checkpoints of a line, without the time until a fork or resume was started.

    ``sessions`` are the periods in which the run worked, in seconds since the epoch, if they are recorded.
    """
    idle = [(before[1], after[0]) for before, after in pairwise(sorted(sessions)) if after[0] > before[1]]
    total = timedelta()
    for before, after in pairwise(line):
        if before.branch == after.branch and before.created_at and after.created_at:
            start, end = before.created_at.timestamp(), after.created_at.timestamp()
            # The time of a checkpoint is that of its id, in whole seconds.
            paused = sum(max(0.0, min(end, until) - max(start, since)) for since, until in idle)
            total += timedelta(seconds=max(end - start - paused, 0.0))
    return total


# What an address of a comparison names: a checkpoint, or the newest one of a branch or run.


_UUID = 36


@dataclass(frozen=True, slots=True)
class Reference:
    """``RUN/CHECKPOINT``, ``RUN@BRANCH`` or ``RUN``. The run is named by its public id."""

    run: uuid.UUID
    checkpoint: str = ""
    branch: str = ""

    def __str__(self) -> str:
        if self.checkpoint:
            return f"{self.run}/{self.checkpoint}"
        return f"{self.run}@{self.branch}" if self.branch else str(self.run)


def reference_in(text: str) -> Reference | None:
    """The reference of this text; None if it is none."""
    run = uuid_of(text[:_UUID])
    if run is None:
        return None
    mark, name = text[_UUID : _UUID + 1], text[_UUID + 1 :]
    if not mark:
        return Reference(run)
    if not name or mark not in "/@":
        return None
    return Reference(run, checkpoint=name) if mark == "/" else Reference(run, branch=name)


def reference_to(checkpoint: Checkpoint) -> Reference:
    """The reference to one checkpoint."""
    return Reference(checkpoint.run.uid, checkpoint=checkpoint.checkpoint_id)


def checkpoint_of(reference: Reference) -> Checkpoint | None:
    """The checkpoint that it names, imported; None if there is none."""
    run = Run.objects.select_related("location__project", "parent").filter(uid=reference.run).first()
    if run is None:
        return None
    ask(ImportRun(run.pk))
    rows = Checkpoint.objects.filter(run=run).select_related(
        "run__location__project", "location", "stored_copy"
    )
    if reference.checkpoint:
        return rows.filter(checkpoint_id=reference.checkpoint).order_by("-row").first()
    return (rows.filter(branch=reference.branch) if reference.branch else rows).order_by("-row").first()
