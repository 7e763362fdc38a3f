"""What a job came to, from its child's last word or from how the child went. Reads and stores nothing."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewer.messages.message import Value, Words, words_from
from viewer.messages.message import gettext_noop as _
from viewer.models import Job

# Somebody ended the child: a shut-down, a person, the kernel's memory keeper.
EXTERNAL_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

STATUSES = {
    "succeeded": Job.Status.SUCCEEDED,
    "failed": Job.Status.FAILED,
    "cancelled": Job.Status.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, in words for a person."""

    status: Job.Status
    result: str = ""
    error: Words | None = None
    traceback: str = ""


def outcome(last: dict[str, Any] | None, returned: int | None, *, spoke: bool, cancelled: bool) -> Outcome:
    """What a job came to.

    ``last`` is the data of its ``ended`` line; ``returned`` is the exit status where we are its parent
    (negative: the signal); ``spoke`` says whether it ever wrote a line, ``cancelled`` whether a person asked.
    """
    if last is not None:
        return reported_outcome(last, cancelled=cancelled)
    if cancelled:
        return Outcome(Job.Status.CANCELLED)
    if returned is not None:
        return outcome_of_exit(returned)
    if not spoke:
        never = _("The run was never started. Nothing was called; start it again.")
        return Outcome(Job.Status.INTERRUPTED, error=Words(never))
    cut_off = _("The run was cut off: its process is gone and left no last word.")
    return Outcome(Job.Status.INTERRUPTED, error=Words(cut_off))


def reported_outcome(last: dict[str, Any], *, cancelled: bool) -> Outcome:
    """The child's own word. What fails while it is being cancelled was cancelled."""
    status = STATUSES.get(str(last.get("status")), Job.Status.FAILED)
    if cancelled and status == Job.Status.FAILED:
        status = Job.Status.CANCELLED
    result, error, traceback = (str(last.get(name) or "") for name in ("result", "error", "traceback"))
    return Outcome(status, result, words_from(last.get("words"), error) if error else None, traceback)


def with_failed_writes(came_to: Outcome, written: int, failures: Sequence[Mapping[str, Any]]) -> Outcome:
    """The outcome of a run that has succeeded, which says so where checkpoints of it could not be written.

    ``failures`` are the data of its ``checkpoint_failed`` lines.
    """
    if came_to.status != Job.Status.SUCCEEDED or not failures:
        return came_to
    counts: dict[str, Value] = {"failed": len(failures), "total": written + len(failures)}
    if any(failure.get("moved") for failure in failures):
        moved = _(
            "Finished, but %(failed)d of %(total)d checkpoints could not be written: the location was "
            "renamed, replaced or removed while the run wrote there."
        )
        return replace(came_to, error=Words(moved, counts))
    lost = _("Finished, but %(failed)d of %(total)d checkpoints could not be written: %(reason)s")
    reason = str(failures[-1].get("error") or "")
    return replace(came_to, error=Words(lost, {**counts, "reason": reason}))


def outcome_of_exit(returned: int) -> Outcome:
    """From how its process ended, where it left no last word."""
    if returned >= 0:
        message = _("The run's program ended with exit status %(status)d before it said how the run went.")
        return Outcome(Job.Status.FAILED, error=Words(message, {"status": returned}))
    try:
        number = signal.Signals(-returned)
    except ValueError:
        message = _("The run's program was ended by signal %(number)d.")
        return Outcome(Job.Status.FAILED, error=Words(message, {"number": -returned}))
    if number in EXTERNAL_SIGNALS:
        message = _("The run was cut off: its process is gone and left no last word. (%(name)s)")
        return Outcome(Job.Status.INTERRUPTED, error=Words(message, {"name": number.name}))
    message = _("The run's program broke down: %(name)s (%(words)s).")
    words = Words(message, {"name": number.name, "words": signal.strsignal(number) or ""})
    return Outcome(Job.Status.FAILED, error=words)
