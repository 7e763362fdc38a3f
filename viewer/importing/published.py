"""Forks that were published from a scratch store to the run that they forked."""

from collections.abc import Sequence
from dataclasses import replace

from viewer.importing.reconciling.rows import in_slices
from viewer.models import Checkpoint, Location
from viewer.stores.protocol import Snapshot


def adopt(location: Location, runs: Sequence[int], snapshots: Sequence[Snapshot]) -> None:
    """Change scratch rows whose checkpoints are now in these runs: they get the keys of the location.

    Their stored copies and their links to jobs remain.
    """
    scratch = Checkpoint.objects.filter(run__in=runs, source_key__startswith=Checkpoint.SCRATCH)
    rows = {(row.run_key, row.checkpoint_id): row for row in scratch.only("run_key", "checkpoint_id")}
    if not rows:
        return
    for one in snapshots:
        if row := rows.get((one.run_key, one.checkpoint_id)):
            Checkpoint.objects.filter(pk=row.pk).update(source_key=one.key)


def with_stored_branches(location: Location, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, with the branch names under which their first checkpoints are stored."""
    first: dict[tuple[str, str], str] = {}
    for one in sorted(snapshots, key=lambda one: one.checkpoint_id):
        first.setdefault((one.run_key, one.branch), one.key)
    if len(first) == 1:
        return list(snapshots)
    stored: dict[str, str] = {}
    for some in in_slices(list(first.values())):
        rows = Checkpoint.objects.filter(location=location, source_key__in=some).order_by()
        stored.update(rows.values_list("source_key", "branch"))
    names = {branch: stored[key] for branch, key in first.items() if stored.get(key)}
    return [replace(one, branch=names.get((one.run_key, one.branch), one.branch)) for one in snapshots]
