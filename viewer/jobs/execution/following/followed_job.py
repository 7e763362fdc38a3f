"""The state of a job that this process follows."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from viewer.jobs.execution.ending.cancel import Cancellation
from viewer.jobs.execution.following.event_rows import Redactor
from viewer.jobs.execution.following.runner_process import RunnerProcess
from viewer.jobs.limits.enforcement import LimitEnforcer
from viewer.jobs.spool import SpoolEvent
from viewer.jobs.storage import JobStorage
from viewer.models import Job


@dataclass
class FollowedJob:
    """How far a job has been followed. Times are on the monotonic clock."""

    job: Job
    storage: JobStorage
    # None if another process started the runner.
    runner: RunnerProcess | None
    redact: Redactor
    importer: ThreadPoolExecutor
    known_seq: int
    enforcer: LimitEnforcer
    offset: int = 0
    has_events: bool = False
    is_gone: bool = False
    is_deleted: bool = False
    # Whether something could not be stored because the disk was full.
    disk_was_full: bool = False
    polled_at: float = 0.0
    # The "ended" event.
    last_event: SpoolEvent | None = None
    last_event_at: float = 0.0
    cancellation: Cancellation | None = None
    # The numbers of the questions that the runner waits for.
    open_questions: set[int] = field(default_factory=set)

    def cancel(self) -> None:
        """Start cancelling the job, unless it is already being cancelled."""
        if self.cancellation is None:
            self.cancellation = Cancellation(self.job)
