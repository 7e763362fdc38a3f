"""The processes of a job: found, ended, stopped by a person or at a limit, and the outcome of their end."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import psutil
from django.conf import settings

from viewer.engines import unit_events
from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.files import JobStorage, storage_of, storages
from viewer.host.jobs.process_tree import kill_tree
from viewer.host.jobs.spool import SpoolEvent
from viewer.messages.message import UserMessage, Value, message_from
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

# Finds and ends every process of a job, including those that left its session.


def belongs_to(process: psutil.Process, storage: JobStorage) -> bool:
    """Whether a live process belongs to the job: its environment has the marker, or it has the lock open.

    A process that reuses the id of an exited one has neither.
    """
    with suppress(psutil.Error, OSError):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARKER) == storage.name:
            return True
    with suppress(psutil.Error, OSError):
        return has_open(process, storage.runner_lock)
    return False


def has_open(process: psutil.Process, path: str) -> bool:
    """Whether the process has this file open. Raises psutil.Error or OSError if that cannot be read."""
    if not psutil.LINUX:
        return any(file.path == path for file in process.open_files())
    # ``open_files`` reads the position and mode of each file as well, which takes three times as long.
    with os.scandir(f"/proc/{process.pid}/fd") as files:
        return any(_target(file.path) == path for file in files)


def _target(link: str) -> str:
    """Return where the link leads; empty if the file was closed in the meantime."""
    with suppress(OSError):
        return os.readlink(link)  # noqa: PTH115 - of every open file of the machine
    return ""


def is_alive(process_id: int, storage: JobStorage) -> bool:
    """Whether this process id still belongs to the job."""
    try:
        return belongs_to(psutil.Process(process_id), storage)
    except psutil.Error:
        return False


def is_gone(process_id: int | None, storage: JobStorage) -> bool:
    """Whether the runner has exited, for processes that did not start it.

    Its lock may outlive it, because processes that it started inherit the lock.
    """
    if storage.exists() and not storage.has_runner():
        return True
    if process_id is None:
        # Without files there is no lock to test, and without an id no process to look up.
        return not storage.exists()
    return not is_alive(process_id, storage)


def tree_of(storage: JobStorage) -> set[psutil.Process]:
    """Every live process of the job and its descendants."""
    found = {process for process in psutil.process_iter() if belongs_to(process, storage)}
    return found | set(descendants(found))


def leader_of(process_id: int, storage: JobStorage) -> int:
    """The process of the job that leads its session, from the number that its runner has reported.

    That of an isolated run is its supervisor, and the runner may have the number of another namespace.
    """
    with suppress(ProcessLookupError):
        if is_alive(process_id, storage) and os.getsid(process_id) == process_id:
            return process_id
    oldest = min(living(tree_of(storage)), key=lambda one: one.create_time(), default=None)
    return oldest.pid if oldest else process_id


def descendants(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    """Yield the descendants of the processes."""
    for process in processes:
        with suppress(psutil.Error):
            yield from process.children(recursive=True)


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The processes that still run. Reused process ids do not count."""
    found = set()
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send the signal to each process that still runs."""
    for process in living(processes):
        with suppress(psutil.Error):
            process.send_signal(number)


def kill(processes: Iterable[psutil.Process]) -> bool:
    """Kill the processes, and their descendants first. Return whether that was possible in time.

    The supervisor of an isolated run may have had no processor time to end its run.
    """
    left = living(processes)
    parents = {one.pid for one in left}
    roots = [one for one in left if _parent_of(one) not in parents]
    were_killed = [kill_tree(one.pid) for one in roots]
    return all(were_killed)


def _parent_of(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return process.ppid()
    return 0


def end_all(storage: JobStorage, patience: float, known: Iterable[psutil.Process] = ()) -> None:
    """Send SIGTERM to all processes of the job, and SIGKILL to those that run after ``patience`` seconds.

    ``known`` are those that were found earlier.
    """
    left = living(known) | tree_of(storage)
    if not left:
        return
    send(left, signal.SIGTERM)
    psutil.wait_procs(left, timeout=patience)
    attempts = 5
    while attempts and (left := living(left | tree_of(storage))):
        # A run that starts processes faster than they are killed is not left.
        attempts -= kill(left)
        psutil.wait_procs(left, timeout=1)


def end_orphan_processes() -> list[Job]:
    """End processes of jobs that have ended. Returns these jobs."""
    # A fork of a prewarmed process has no marker. Its job has leftovers, as nobody has cleaned it up.
    marked = {UUID(storage.name) for storage in storages("jobs") if storage.has_leftovers()}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError, ValueError):
            if marker := process.environ().get(MARKER):
                marked.add(UUID(marker))
    ended = []
    for job in Job.objects.ended().here().filter(pk__in=marked):
        storage = storage_of(job)
        # A follower may be about to end them.
        if not storage.is_followed() and tree_of(storage):
            end_all(storage, patience=settings.CANCEL_GRACE_SECONDS)
            ended.append(job)
    return ended


# Handles of a runner in the process that started it: a new process, or a fork of a prewarmed one.


MAX_MESSAGE_BYTES = 64 * 1024


class RunnerProcess(Protocol):
    """The part of ``subprocess.Popen`` that both kinds of runner have."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None:
        """The exit status (negative for a signal), or None while it runs. Raises LostRunner."""


class LostRunner(Exception):
    """The exit status cannot be read: the runner's parent has exited, or the runner has refused the job late.

    The runner may still run.
    """


class PrewarmedRunner:
    """A fork of a prewarmed process, which sends the fork's exit status over ``connection``."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        while self.returncode is None:
            try:
                message = receive(self._connection, 0)
            except BlockingIOError:
                return None
            except OSError as error:
                raise LostRunner(str(error)) from error
            if not message:
                raise LostRunner(f"the parent of process {self.pid} has exited")
            if reason := message.get("reason"):
                # The refusal came too late to start another process. Nothing ran, so no exit status counts.
                raise LostRunner(reason)
            # The message that it has started may arrive late.
            if "status" in message:
                self.returncode = int(message["status"])
                self._connection.close()
        return self.returncode


def receive(connection: socket.socket, timeout: float) -> dict[str, Any]:
    """One message, empty if the connection is closed. Raises OSError, such as TimeoutError."""
    connection.settimeout(timeout)
    data = connection.recv(MAX_MESSAGE_BYTES)
    return dict(json.loads(data)) if data else {}


# Whether a person has cancelled the jobs that this process follows, read for all followers with one query.


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


# Cancels jobs: interrupts the runner, then terminates its process tree, then kills it.


# How often the process tree is listed. A process that leaves the tree is remembered from an earlier listing.
TREE_POLL_SECONDS = 0.5


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
        self.known = living(self.known | tree_of(storage_of(self.job)))
        while self.step < due:
            self.step += 1
            self._send_signal()
        if self.step == 3:
            kill(self.known)

    def _send_signal(self) -> None:
        """First SIGINT to the runner's group, so that it can report its end. Then SIGTERM to all."""
        leader = self.job.process_id
        if self.step == 1 and leader and is_alive(leader, storage_of(self.job)):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGINT)
        elif self.step == 2:
            send(self.known, signal.SIGTERM)

    def finish(self) -> None:
        """Kill every process that outlived the runner."""
        end_all(storage_of(self.job), patience=0, known=self.known)


# The outcome of a job, from what its runner reported or from how the runner exited. Pure functions.


# Sent from outside: at a shutdown, by a person, by the kernel when memory runs out.
EXTERNAL_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

STATUSES = {
    "succeeded": Job.Status.SUCCEEDED,
    "failed": Job.Status.FAILED,
    "cancelled": Job.Status.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. ``error`` is a message for a person."""

    status: Job.Status
    result: str = ""
    error: UserMessage | None = None
    traceback: str = ""


def outcome_of(
    last: dict[str, Any] | None, exit_status: int | None, *, has_events: bool, is_cancelled: bool
) -> Outcome:
    """The outcome of a job.

    ``last`` is the data of its ``ended`` event. ``exit_status`` is None if another process started the
    runner, and negative for a signal. ``has_events`` says whether the runner wrote anything, and
    ``is_cancelled`` whether a person or a limit stopped the job.
    """
    if last is not None:
        return reported_outcome(last, is_cancelled=is_cancelled)
    if is_cancelled:
        return Outcome(Job.Status.CANCELLED)
    if exit_status is not None:
        return outcome_of_exit(exit_status)
    if not has_events:
        return Outcome(Job.Status.INTERRUPTED, error=UserMessage("job.never_started"))
    return Outcome(Job.Status.INTERRUPTED, error=UserMessage("job.cut_off"))


def reported_outcome(last: dict[str, Any], *, is_cancelled: bool) -> Outcome:
    """What the runner reported. A failure while the job is being cancelled counts as cancelled."""
    status = STATUSES.get(str(last.get("status")), Job.Status.FAILED)
    if is_cancelled and status == Job.Status.FAILED:
        status = Job.Status.CANCELLED
    result, traceback = (str(last.get(name) or "") for name in ("result", "traceback"))
    return Outcome(status, result, message_from(last.get("error")), traceback)


def with_failed_writes(outcome: Outcome, written: int, failures: Sequence[Mapping[str, Any]]) -> Outcome:
    """The outcome, with an error if the run succeeded without writing all of its checkpoints.

    ``failures`` are the data of its ``checkpoint_failed`` events.
    """
    if outcome.status != Job.Status.SUCCEEDED or not failures:
        return outcome
    counts: dict[str, Value] = {"failed": len(failures), "total": written + len(failures)}
    if any(failure.get("moved") for failure in failures):
        return replace(outcome, error=UserMessage("job.location_moved", counts))
    lost = "job.checkpoints_failed"
    reason = str(failures[-1].get("error") or "")
    return replace(outcome, error=UserMessage(lost, {**counts, "reason": reason}))


def outcome_of_exit(exit_status: int) -> Outcome:
    """The outcome of a run whose process exited without reporting an end."""
    if exit_status >= 0:
        return Outcome(Job.Status.FAILED, error=UserMessage("job.program_exited", {"status": exit_status}))
    try:
        number = signal.Signals(-exit_status)
    except ValueError:
        return Outcome(Job.Status.FAILED, error=UserMessage("job.program_killed", {"number": -exit_status}))
    if number in EXTERNAL_SIGNALS:
        return Outcome(
            Job.Status.INTERRUPTED, error=UserMessage("job.cut_off_by_signal", {"name": number.name})
        )
    text = UserMessage("job.program_crashed", {"name": number.name, "words": signal.strsignal(number) or ""})
    return Outcome(Job.Status.FAILED, error=text)
