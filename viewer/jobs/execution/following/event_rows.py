"""Spool events as redacted rows."""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from viewer.importing.stored_copies.project_secrets import secrets_for
from viewer.jobs.execution.following.event_batches import RedactedEvent
from viewer.jobs.spool import SpoolEvent
from viewer.jobs.storage import storage_of
from viewer.messages.message import message_from, redacted_message
from viewer.models import Job, Project
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.values import redact as redact_value

# The field that holds a message, for each kind of event that has one.
MESSAGES = {"warning": "message", "ended": "error"}

logger = logging.getLogger(__name__)

Redactor = Callable[[Any], Any]
LOG_TAIL_CHARACTERS = 8 * 1024
# More is read than is shown, so that no secret is cut before it is redacted.
LOG_READ_BYTES = 8 * LOG_TAIL_CHARACTERS


def redactor_of(project: Project | None) -> Redactor:
    """A function that returns a copy of a JSON value without secrets, also those of this project."""
    known = known_secrets(secrets_for(project))

    def redact(value: Any) -> Any:
        return redact_value(storable(value), known)

    return redact


def storable(value: Any) -> Any:
    """A copy of a decoded JSON value without the characters that a database cannot store."""
    if isinstance(value, str):
        # A lone surrogate cannot be encoded.
        return value.encode(errors="replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value


def redacted_data(event: SpoolEvent, redact: Redactor) -> dict[str, Any]:
    """The event's data without secrets."""
    data: dict[str, Any] = redact(event["data"])
    field = MESSAGES.get(event["kind"], "")
    if isinstance(event["data"].get(field), dict) and (message := message_from(event["data"][field])):
        data[field] = redacted_message(message, redact).as_data()
    return data


def rows_of(job: Job, events: Sequence[SpoolEvent], redact: Redactor) -> list[RedactedEvent]:
    """The redacted rows of these events, in the same order."""
    return [
        RedactedEvent(
            job=job.pk,
            seq=event["seq"],
            kind=event["kind"],
            at=datetime.fromtimestamp(event["at"], UTC),
            data=redacted_data(event, redact),
        )
        for event in events
    ]


def log_tail(job: Job, redact: Redactor) -> str:
    """The end of the job's log without secrets, cut at a line break if possible."""
    data, is_whole = storage_of(job).read_log_end(LOG_READ_BYTES)
    if not is_whole:
        data = data.partition(b"\n")[2] or data
    text: str = redact(data.decode(errors="replace"))
    end = text[-LOG_TAIL_CHARACTERS:]
    return end if len(end) == len(text) else end.partition("\n")[2] or end
