"""The outcome of a job, from what its runner reported or from how the runner exited. Pure functions."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewer.messages.message import UserMessage, Value, message_from
from viewer.models import Job

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
