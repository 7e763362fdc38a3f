"""Stores what was appended to a run of an indexed store, without comparing its other rows."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from viewer.importing.reconciling.continuing import stored_as_continued
from viewer.importing.reconciling.reconcile import reconcile
from viewer.models import Checkpoint, Location, Run
from viewer.stores.packing import Packed
from viewer.stores.protocol import Snapshot


def usable_state(top: Run, runs: Sequence[int]) -> str:
    """The state of a run's last listing; empty if its next listing has to be complete.

    ``runs`` are the run and those that it called.
    """
    listed = Run.objects.filter(pk=top.pk, is_partly_listed=False).exclude(indexed_fingerprint="")
    state = listed.values_list("listed_state", flat=True).first()
    # A row without a fingerprint is to be read again.
    again = Checkpoint.objects.filter(run__in=runs, fingerprint="").exclude(state=Checkpoint.State.NO_COPY)
    return "" if not state or again.exists() else state


def reconcile_appended(location: Location, snapshots: Sequence[Snapshot]) -> tuple[int, int]:
    """Store those of the snapshots that are new or have changed. Requires a transaction.

    Returns the numbers of new and of changed checkpoints.
    """
    rows = location.checkpoints.filter(source_key__in=[one.key for one in snapshots]).order_by()
    found = rows.values_list("source_key", "fingerprint", "branch")
    stored = {key: (fingerprint, branch) for key, fingerprint, branch in found}
    due: dict[str, list[Packed]] = defaultdict(list)
    for one in _with_stored_branches(snapshots, {key: branch for key, (_mark, branch) in stored.items()}):
        if one.key not in stored or stored[one.key][0] != one.fingerprint:
            due[one.run_key].append(Packed(one, b"", b"", []))
    runs = {run.key: run for run in location.runs.select_related("location").filter(key__in=due)}
    for key, packed in due.items():
        _reconcile_run(location, runs.get(key), packed, stored.keys())
    all_due = [one for packed in due.values() for one in packed]
    added = sum(one.key not in stored for one in all_due)
    return added, len(all_due) - added


def _with_stored_branches(snapshots: Sequence[Snapshot], stored: Mapping[str, str]) -> Iterator[Snapshot]:
    """The snapshots, oldest first, each on the branch of its parent or on the one that it is stored with."""
    branches: dict[tuple[str, str], str] = {}
    for one in sorted(snapshots, key=lambda one: one.checkpoint_id):
        branch = branches.get((one.run_key, one.parent_id or "")) or stored.get(one.key) or one.branch
        branches[one.run_key, one.checkpoint_id] = branch
        yield replace(one, branch=branch)


def _reconcile_run(
    location: Location, run: Run | None, packed: Sequence[Packed], stored: Collection[str]
) -> None:
    """Store the due checkpoints of one run, oldest first."""
    changed = [one for one in packed if one.key in stored]
    new = [one for one in packed if one.key not in stored]
    ids = {one.snapshot.checkpoint_id for one in packed}
    # A checkpoint that was published from a scratch store may be on another branch now.
    is_published = any(one.snapshot.parent_id in ids for one in changed)
    if run is None or is_published or not stored_as_continued(run, changed, new):
        reconcile(location, packed, runs_of_read=[run.pk] if run else [])
