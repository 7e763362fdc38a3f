"""Imports the new checkpoints of a scratch store, with stored copies, below the checkpoint that was forked.

The scratch store is another source of the same run. It begins with a copy of the forked checkpoint, which is
not imported again.
"""

from dataclasses import replace
from pathlib import Path

from django.db import transaction

from viewer.host.locations.addresses import import_lock, read_limits
from viewer.host.locations.indexing import import_run
from viewer.host.locations.project_secrets import secrets_for
from viewer.host.locations.results import ImportSummary, record, refresh
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.models import Checkpoint, Run
from viewer.records.checkpoint_rows import known_rows
from viewer.records.indexed_runs import called_runs, store_runs
from viewer.records.reconciling import reconcile
from viewer.stores.errors import LocationUnreadable
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, Snapshot


def import_scratch(run: Run, store: Path, job: str, branch: str) -> ImportSummary:
    """Import the new checkpoints of a job's scratch store into the run that the job forked."""
    if Run.objects.filter(pk=run.outermost.pk, is_partly_listed=True).exists():
        import_run(run)
    location = run.location
    with import_lock(location):
        if not refresh(location):
            return ImportSummary()
        secrets = secrets_for(location.project)
        address = LocationAddress(store, read_limits(), [store.parent], None, secrets, location.engine)
        try:
            with open_reader(address) as reader:
                summary = _import(run.outermost, reader, f"{Checkpoint.SCRATCH}{job}/", branch)
        except LocationUnreadable as error:
            return ImportSummary(read_error=error.message)
        if summary.is_news:
            record(location, summary)
    return summary


def _import(run: Run, reader: LocationReader, prefix: str, branch: str) -> ImportSummary:
    location, index = run.location, reader.index(run.key)
    runs = [run.pk, *called_runs([run.pk])]
    stored = Checkpoint.objects.filter(run__in=runs).exclude(source_key__startswith=prefix)
    others = set(stored.values_list("checkpoint_id", flat=True))
    known = known_rows(location, runs=runs)
    new = [one for one in index.snapshots if one.checkpoint_id not in others]
    due = {
        one.key: replace(one, key=f"{prefix}{one.key}", branch=branch)
        for one in new
        if (before := known.get(f"{prefix}{one.key}")) is None or before.fingerprint != one.fingerprint
    }
    if not due:
        return ImportSummary()
    packed = _read(reader, due)
    listed = set(location.runs.filter(key__in=[one.key for one in index.runs]).values_list("key", flat=True))
    with transaction.atomic():
        reconcile(location, packed, connects_runs=False)
        store_runs(location, [one for one in index.runs if one.key not in listed], "")
    return ImportSummary(added=len(packed), is_news=bool(packed))


def _read(reader: LocationReader, due: dict[str, Snapshot]) -> list[Packed]:
    """The stored copies of these snapshots, by their keys in the scratch store."""
    entries = [Entry(key, one.fingerprint, one.size) for key, one in due.items()]
    found = [one for one in reader.read_all(entries, 1) if isinstance(one, Packed)]
    return [Packed(due[one.key], one.data, b"", []) for one in found]
