"""The rows of the jobs that this process follows, read for all followers with one query."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from viewer.models import Job

# Seconds between two queries. In between, followers receive the rows of the last one.
READ_SECONDS = 0.2


@dataclass(eq=False, slots=True)
class FollowedRows:
    """When a person has cancelled each followed job, if at all. Thread-safe."""

    jobs: set[UUID] = field(default_factory=set)
    read_at: float = float("-inf")
    # The jobs of the last query, and those of them that exist.
    queried: frozenset[UUID] = frozenset()
    found: dict[UUID, datetime | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def following(self, job: UUID) -> Iterator[None]:
        """Read the row of this job with the others."""
        with self.lock:
            self.jobs.add(job)
        try:
            yield
        finally:
            with self.lock:
                self.jobs.discard(job)

    def cancellations_of(self, job: UUID) -> list[datetime | None]:
        """When a person has cancelled the job, or None; an empty list if the job was deleted."""
        with self.lock:
            now = time.monotonic()
            if job not in self.queried or now - self.read_at >= READ_SECONDS:
                queried = frozenset(self.jobs | {job})
                rows = Job.objects.filter(pk__in=queried).values_list("pk", "cancel_requested_at")
                # Nothing changes if the query fails: a job without a row counts as deleted.
                self.found, self.queried, self.read_at = dict(rows), queried, now
            return [self.found[job]] if job in self.found else []


# One for all followers of this process.
followed_rows = FollowedRows()
