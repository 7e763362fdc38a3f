"""Threads with stored copies."""

from pathlib import Path

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.databases import Database, packed
from viewer.host.locations.completing import complete_some
from viewer.models import Checkpoint, Run, StoredCopy
from viewer.records.annotations import AnnotatedObject, annotate


def copy_all() -> None:
    """Do what the worker does in the background, until nothing is left."""
    while complete_some():
        pass


def star(run: Run, branch: str = "", checkpoint: str = "", *, is_starred: bool = True) -> None:
    """Give a run, one of its branches or a checkpoint a star, or take it away."""
    annotate(AnnotatedObject(run, branch, checkpoint), None, is_starred=is_starred)


def copied_ids(run: Run) -> set[str]:
    """Return the ids of the checkpoints of a run and its subgraphs that have copies."""
    runs = [run.pk, *run.called_runs.values_list("pk", flat=True)]
    bodies = StoredCopy.objects.filter(checkpoint__run__in=runs).exclude(data=b"")
    return set(bodies.values_list("checkpoint__checkpoint_id", flat=True))


def checkpoints_of(run: Run) -> list[Checkpoint]:
    """Return the checkpoints of a run and its subgraphs."""
    runs = [run.pk, *run.called_runs.values_list("pk", flat=True)]
    return list(Checkpoint.objects.filter(run__in=runs).select_related("stored_copy", "location"))


def copied_thread(folder: Path, count: int) -> tuple[Database, Run]:
    """Write a thread of consecutive checkpoints. Return its database, and its run after it was copied."""
    database = written_thread(folder, count)
    run = opened(imported_location(database.path), "t")
    star(run)
    copy_all()
    return database, run


def written_thread(folder: Path, count: int) -> Database:
    """Write a thread of consecutive checkpoints."""
    database = Database(folder / "threads.db")
    for number in range(count):
        database.add(number, packed({"value": number}))
    return database
