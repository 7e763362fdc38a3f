"""Ends a running job's whole tree, step by step: asked, told, killed."""

import signal
import time
from dataclasses import dataclass, field

import psutil
from django.conf import settings

from viewer.data_folder.write_ahead_log import clear_log
from viewer.jobs.execution import processes
from viewer.models import Job

# How often the tree is looked for again: a process that leaves it is known from before.
TREE_POLL_SECONDS = 0.5


def request_cancel(job: Job) -> bool:
    """Cancel a queued job at once, or ask the follower of a running one to. False where it has ended."""
    asked = job.request_cancel()
    if asked and job.has_ended:
        # It never ran, so nobody else takes what was typed out of the database's log.
        clear_log(attempts=1)
    return asked


@dataclass
class Cancellation:
    """How far the cancelling of one job has come. ``began`` is on the monotonic clock."""

    job: Job
    began: float = field(default_factory=time.monotonic)
    step: int = 0
    looked: float = 0.0
    known: set[psutil.Process] = field(default_factory=set)

    def advance(self) -> None:
        """Do what is due by now. Called again and again until the child is gone."""
        passed = time.monotonic() - self.began
        due = min(int(passed / settings.CANCEL_GRACE_SECONDS), 2) + 1
        if due == self.step and time.monotonic() - self.looked < TREE_POLL_SECONDS:
            return
        self.looked = time.monotonic()
        self.known = processes.living(self.known | processes.tree_of(self.job.folder))
        while self.step < due:
            self.step += 1
            self.signal_once()
        if self.step == 3:
            processes.send(self.known, signal.SIGKILL)

    def signal_once(self) -> None:
        """First Ctrl-C, so that the run can say its last word; then the whole tree is told."""
        if self.step == 1 and self.job.process_id:
            processes.interrupt_group(self.job.process_id, self.job.folder)
        elif self.step == 2:
            processes.send(self.known, signal.SIGTERM)

    def finish(self) -> None:
        """End what outlived the child."""
        processes.send(self.known, signal.SIGKILL)
        processes.end_all(self.job.folder, patience=0)
