"""The statuses of a run's units at a checkpoint, including units of the runs that it called."""

from collections.abc import Iterator

from viewer.engines import engine_of
from viewer.lineage.unit_graph import SEPARATOR
from viewer.models import Checkpoint, Run

# Only this many of the newest checkpoints of a run are read.
MAX_ROWS = 2_000
MAX_CALLED = 100
# The statuses of units that ran in an earlier step, and in the last one.
RAN, DONE = "ran", "done"


def unit_statuses(run: Run, checkpoint: Checkpoint) -> dict[str, str]:
    """The status of each unit since the last input, by its name.

    Units of called runs are named ``outer/inner``. A unit that ran and is pending again is pending.
    """
    statuses: dict[str, str] = {}
    path = _path_to(run, checkpoint)
    for row in path:
        _add(statuses, row.units, row.pk == checkpoint.pk)
    prefix = path_of(run)
    named = {inside(prefix, name): status for name, status in statuses.items()}
    for called in _called_from(run, {row.checkpoint_id for row in path}):
        inner: dict[str, str] = {}
        for row in called.checkpoints.order_by("row")[:MAX_ROWS]:
            is_last = row.checkpoint_id == called.head and called.called_from == checkpoint.checkpoint_id
            _add(inner, row.units, is_last)
        named |= {inside(path_of(called), name): status for name, status in inner.items()}
    return named


def path_of(run: Run) -> str:
    """The unit that called this run, after those that called the callers; empty for a separate run."""
    return SEPARATOR.join(engine_of(run.location).calling_units(run.namespace))


def inside(prefix: str, name: str) -> str:
    """The name of a unit of a called run."""
    return f"{prefix}{SEPARATOR}{name}" if prefix else name


def _add(statuses: dict[str, str], units: list[list[str]], is_last: bool) -> None:
    for name, status in units:
        if status == DONE:
            statuses[name] = DONE if is_last else RAN
        elif is_last:
            statuses[name] = status


def _path_to(run: Run, checkpoint: Checkpoint) -> list[Checkpoint]:
    """The checkpoint and those before it up to the last start, oldest first."""
    rows = run.checkpoints.filter(row__lte=checkpoint.row).order_by("-row")
    by_pk = {row.pk: row for row in rows.only("pk", "parent", "units", "trigger", "checkpoint_id")[:MAX_ROWS]}
    engine, path, at = engine_of(run.location), [], by_pk.get(checkpoint.pk)
    while at is not None:
        path.append(at)
        is_start = engine.is_start(at.trigger) and at.pk != checkpoint.pk
        parent = None if is_start else by_pk.get(at.parent_id or 0)
        # Each parent is read once, since recorded parents may contradict each other.
        at = parent if parent not in path else None
    return path[::-1]


def _called_from(run: Run, checkpoint_ids: set[str]) -> Iterator[Run]:
    """The runs that were called after these checkpoints, and those that they called."""
    waiting = list(run.called_runs.filter(called_from__in=checkpoint_ids)[:MAX_CALLED])
    seen = 0
    while waiting and seen < MAX_CALLED:
        seen += 1
        called = waiting.pop(0)
        yield called
        waiting += called.called_runs.all()[:MAX_CALLED]
