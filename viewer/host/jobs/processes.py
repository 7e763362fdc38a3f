"""The processes of a job: found, cancelled and ended, including those that left its session."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import psutil
from django.conf import settings

from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.process_tree import kill_tree
from viewer.messages.message import UserMessage, Value, message_from
from viewer.models import Job

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
    """The exit status cannot be read: the runner's parent has exited. The runner may still run."""


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
            # Other messages may arrive late.
            if "status" in message:
                self.returncode = int(message["status"])
                self._connection.close()
        return self.returncode


def receive(connection: socket.socket, timeout: float) -> dict[str, Any]:
    """One message, empty if the connection is closed. Raises OSError, such as TimeoutError."""
    connection.settimeout(timeout)
    data = connection.recv(MAX_MESSAGE_BYTES)
    return dict(json.loads(data)) if data else {}


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
