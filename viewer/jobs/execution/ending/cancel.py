"""Cancels jobs: interrupts the runner, then terminates its process tree, then kills it."""

import signal
import time
from dataclasses import dataclass, field

import psutil
from django.conf import settings

from viewer.data_folder.write_ahead_log import clear_log
from viewer.jobs.execution import processes
from viewer.jobs.storage import storage_of
from viewer.models import Job

# How often the process tree is listed. A process that leaves the tree is remembered from an earlier listing.
TREE_POLL_SECONDS = 0.5


def request_cancel(job: Job) -> bool:
    """Cancel a queued job, or ask the follower of a running job to. Return False if the job has ended."""
    requested = job.request_cancel()
    if requested and job.has_ended:
        # The job never ran, so no follower clears the user's input from the write-ahead log.
        clear_log(attempts=1)
    return requested


@dataclass
class Cancellation:
    """The progress of a job's cancellation. Times are on the monotonic clock."""

    job: Job
    started_at: float = field(default_factory=time.monotonic)
    step: int = 0
    listed_at: float = 0.0
    known: set[psutil.Process] = field(default_factory=set)

    def advance(self) -> None:
        """Send the signals that are due. Called repeatedly until the runner has exited."""
        passed = time.monotonic() - self.started_at
        due = min(int(passed / settings.CANCEL_GRACE_SECONDS), 2) + 1
        if due == self.step and time.monotonic() - self.listed_at < TREE_POLL_SECONDS:
            return
        self.listed_at = time.monotonic()
        self.known = processes.living(self.known | processes.tree_of(storage_of(self.job)))
        while self.step < due:
            self.step += 1
            self._send_signal()
        if self.step == 3:
            processes.send(self.known, signal.SIGKILL)

    def _send_signal(self) -> None:
        """First SIGINT to the runner's group, so that it can report its end. Then SIGTERM to all."""
        if self.step == 1 and self.job.process_id:
            processes.interrupt_group(self.job.process_id, storage_of(self.job))
        elif self.step == 2:
            processes.send(self.known, signal.SIGTERM)

    def finish(self) -> None:
        """Kill every process that outlived the runner."""
        processes.send(self.known, signal.SIGKILL)
        processes.end_all(storage_of(self.job), patience=0)
