"""The line of ancestors of a checkpoint, and the nearest that several checkpoints share."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from django.db.models.expressions import RawSQL

from viewer.models import Checkpoint

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
