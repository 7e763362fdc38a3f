"""Stored checkpoints that a listing has under another key.

Either their fork was published from a scratch store to the run that it forked, or their keys were redacted
when a secret became known.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Q

from viewer.importing.reconciling.rows import in_slices
from viewer.models import Checkpoint, Location
from viewer.redaction.marker import MARKER
from viewer.stores.protocol import Snapshot


def adopt(location: Location, runs: Sequence[int], snapshots: Sequence[Snapshot]) -> None:
    """Give rows whose checkpoints are listed in these runs the keys with which they are listed.

    Their stored copies and their links to jobs remain.
    """
    is_other = Q(source_key__startswith=Checkpoint.SCRATCH)
    if location.secrets_digest:
        is_other |= Q(source_key__contains=MARKER)
    others = Checkpoint.objects.filter(is_other, run__in=runs).order_by()
    found = others.values_list("pk", "source_key", "run_key", "checkpoint_id")
    rows = {(run_key, own_id): (pk, key) for pk, key, run_key, own_id in found}
    if not rows:
        return
    for one in snapshots:
        pk, key = rows.get((one.run_key, one.checkpoint_id), (0, one.key))
        if key != one.key:
            Checkpoint.objects.filter(pk=pk).update(source_key=one.key)


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
