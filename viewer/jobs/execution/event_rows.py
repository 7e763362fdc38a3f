"""A child's lines as rows, with what may be secret hidden."""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from viewer.importing.project_secrets import secrets_for
from viewer.jobs.spool import LOG, SpoolEvent
from viewer.messages.message import Words, words_from
from viewer.models import Job, JobEvent, Project
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.values import redact

# What a line says in English, where words can stand beside it.
ENGLISH = {"warning": "message", "ended": "error"}

logger = logging.getLogger(__name__)

Redactor = Callable[[Any], Any]
LOG_TAIL_CHARACTERS = 8 * 1024
# As much is read, so that no key is met in its middle.
LOG_READ_BYTES = 8 * LOG_TAIL_CHARACTERS


def redactor_for(job: Job) -> Redactor:
    """What hides secrets in this job's lines: those that look like one, and its project's own keys."""
    return redactor_of(job.project)


def redactor_of(project: Project | None) -> Redactor:
    """What hides the keys of this project, and all that looks like a secret."""
    known = known_secrets(secrets_for(project))

    def hide(value: Any) -> Any:
        return redact(storable(value), known)

    return hide


def storable(value: Any) -> Any:
    """A copy of a decoded JSON value without what a database cannot store."""
    if isinstance(value, str):
        # Half a pair of surrogates is no text to a database.
        return value.encode(errors="replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value


def redacted_message(words: Words, hide: Redactor) -> Words:
    """These words without secrets; in English alone, where one is only known for one in the whole."""
    return words_from(hide(words.plain()), hide(str(words)))


def redacted_data(line: SpoolEvent, hide: Redactor) -> dict[str, Any]:
    """What a line tells, without secrets; its words are left out where they do not say what it says then."""
    data: dict[str, Any] = hide(line["data"])
    if "words" in data:
        data["words"] = words_from(data["words"], str(data.get(ENGLISH.get(line["kind"], "")))).plain()
    return data


def rows_of(job: Job, lines: Sequence[SpoolEvent], hide: Redactor) -> list[JobEvent]:
    """The rows to store for these lines, in their order."""
    return [
        JobEvent(
            job=job,
            seq=line["seq"],
            kind=line["kind"],
            at=datetime.fromtimestamp(line["at"], UTC),
            data=redacted_data(line, hide),
        )
        for line in lines
    ]


def log_tail(job: Job, hide: Redactor) -> str:
    """The last of what the run printed, without secrets: whole lines where there are several."""
    try:
        with open(job.folder / LOG, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_READ_BYTES))
            data = file.read()
    except FileNotFoundError:
        return ""
    if size > LOG_READ_BYTES:
        data = data.partition(b"\n")[2] or data
    text: str = hide(data.decode(errors="replace"))
    end = text[-LOG_TAIL_CHARACTERS:]
    return end if len(end) == len(text) else end.partition("\n")[2] or end
