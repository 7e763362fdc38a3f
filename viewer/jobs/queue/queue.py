"""The queue of jobs, behind one interface. It holds only ids; the job's row says whether it may start."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol
from uuid import UUID

from viewer.jobs.queue.tasks import TaskQueue


class JobQueue(Protocol):
    """Entries with the ids of jobs. One worker claims each entry, in the order in which they were added."""

    def add(self, job: UUID) -> None:
        """Add an entry, as part of the current transaction."""

    def waiting(self) -> set[UUID]:
        """The jobs of the entries that no worker has claimed."""

    def run_next(self) -> None:
        """Claim the next entry and run its job to its end. Does nothing if no entry waits."""

    def delete(self, added_before: datetime, unfinished: Collection[UUID]) -> int:
        """Delete older entries, except those of ``unfinished`` jobs. Return the number deleted."""


def job_queue() -> JobQueue:
    """The queue of this data folder."""
    return TaskQueue()
