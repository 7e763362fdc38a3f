"""What this process knows of a job that it follows: its state, its row, its limits and its pace."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from uuid import UUID

from viewer.engines import unit_events
from viewer.host.jobs.events import Redactor, StreamedTexts
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.processes import Cancellation, RunnerProcess
from viewer.host.jobs.spool import SpoolEvent
from viewer.models import Job
from viewer.records.limits import (
    TOKEN_EVENTS,
    Limit,
    has_cost_quota,
    limit_in,
    limits_in,
    reached_shared_limit,
    seconds_of,
)
from viewer.records.prices import price_job
from viewer.stores.protocol import count_of

# How often followers read their spools.
#
# Each read wakes a thread, which takes more processor time than the events that it finds. So the more
# jobs of a process write events at the same time, the more events a follower leaves for its next read.


# A follower of a job that writes nothing reads this often: the next event is stored at once.
POLL_SECONDS = 0.02
# The time between two reads of the process. With 20 busy jobs, each is read ten times a second.
SECONDS_A_READ = 0.005
MAX_PAUSE_SECONDS = 0.1
# A job is busy for this long after an event.
BUSY_SECONDS = 0.3


@dataclass(eq=False, slots=True)
class Pace:
    """When each busy job of this process last had events, on the monotonic clock. Thread-safe."""

    busy: dict[UUID, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pause_after_events(self, job: UUID) -> float:
        """Return how many seconds to wait before reading again, for a job that just had events."""
        now = time.monotonic()
        with self.lock:
            self.busy = {pk: at for pk, at in self.busy.items() if now - at < BUSY_SECONDS} | {job: now}
            return min(max(POLL_SECONDS, SECONDS_A_READ * len(self.busy)), MAX_PAUSE_SECONDS)


# One for all followers of this process.
pace = Pace()


# The rows of the jobs that this process follows, read for all followers with one query.


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


# Enforces the limits of a followed job: counts its events, and stops it as a cancellation does.


# Besides the start of a unit, these events show that a run will use more. Other runs may just end.
WORK_STARTED = ("model_started", "model_completed")


@dataclass
class LimitEnforcer:
    """The usage of a job, counted from the beginning of its spool, and the limit that it has reached."""

    job: Job
    tokens: int = 0
    steps: int = 0
    reached: Limit | None = None
    # The runner has reported that it stops at a limit.
    runner_stops: bool = False


def count_event(enforcer: LimitEnforcer, event: SpoolEvent) -> bool:
    """Count an event. Return True if the run must be stopped now: it has reached a limit and continues."""
    kind, data = event["kind"], event["data"]
    if kind == "limit":
        enforcer.runner_stops = True
        _stop(enforcer.job, limit_in(data))
        return False
    if enforcer.reached and kind in (*WORK_STARTED, *unit_events("started")):
        return _stop(enforcer.job, enforcer.reached)
    if kind in TOKEN_EVENTS:
        counted = enforcer.tokens + count_of(data.get("tokens"))
        enforcer.tokens = count_of(max(counted, count_of(data.get("total_tokens"))))
    elif kind in unit_events("completed"):
        enforcer.steps += 1
    enforcer.reached = enforcer.reached or _job_limit_reached(enforcer)
    return False


def store_usage(enforcer: LimitEnforcer) -> None:
    """Store the usage in the job's row, where jobs with the same shared limit read it. Never decreases."""
    job = enforcer.job
    tokens, steps = max(job.tokens, enforcer.tokens), max(job.steps_used, enforcer.steps)
    if (tokens, steps) != (job.tokens, job.steps_used):
        job.record_usage(tokens=tokens, steps=steps)
        if has_cost_quota(job):
            price_job(job)


def check_shared(enforcer: LimitEnforcer) -> bool:
    """Check the time limit and the limits shared with other jobs. True if the run has to be stopped now."""
    job = enforcer.job
    if job.limit_hit:
        return not enforcer.runner_stops
    if "seconds" in job.limits and _seconds_run(job) >= job.limits["seconds"]:
        return _stop(job, Limit("job", "seconds", job.limits["seconds"]))
    shared = reached_shared_limit(job)
    if shared is None:
        # The usage of other jobs may have left the period of the limit.
        storage_of(job).delete_stop()
    else:
        storage_of(job).write_stop(asdict(shared))
    enforcer.reached = _job_limit_reached(enforcer) or shared
    # A waiting run uses time, but no tokens or steps.
    if shared and shared.measure == "seconds":
        return _stop(job, shared)
    return False


def _seconds_run(job: Job) -> float:
    """The seconds that the job has run, without its waits for a person."""
    waits = job.questions.order_by("asked_at").values_list("asked_at", "answered_at", "withdrawn_at")
    return seconds_of(job, [(asked, answered or withdrawn) for asked, answered, withdrawn in waits])


def _job_limit_reached(enforcer: LimitEnforcer) -> Limit | None:
    used = {"tokens": enforcer.tokens, "steps": enforcer.steps}
    limits = limits_in("job", enforcer.job.limits)
    return next((one for one in limits if one.measure in used and used[one.measure] >= one.max_amount), None)


def _stop(job: Job, limit: Limit | None) -> bool:
    return job.stop(asdict(limit) if limit else {"whose": "unknown"})


# The state of a job that this process follows.


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
    # Whether the run has replaced or closed its own folder.
    has_changed_folder: bool = False
    polled_at: float = 0.0
    # The "ended" event.
    last_event: SpoolEvent | None = None
    last_event_at: float = 0.0
    cancellation: Cancellation | None = None
    # The numbers of the questions that the runner waits for.
    open_questions: set[int] = field(default_factory=set)
    texts: StreamedTexts = field(default_factory=StreamedTexts)

    def cancel(self) -> None:
        """Start cancelling the job, unless it is already being cancelled."""
        if self.cancellation is None:
            self.cancellation = Cancellation(self.job)
