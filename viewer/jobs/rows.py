"""A child's lines as rows, with what may be secret hidden."""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from viewer.jobs.environment import file_values
from viewer.jobs.spool import LOG, Line
from viewer.models import Job, JobEvent
from viewer.providers.redaction import MARKER, redact, secrecy_of

Hiding = Callable[[Any], Any]
LOG_END_BYTES = 8 * 1024
# Shorter ones are words that would be hidden everywhere.
SHORTEST_KEY = 8


def hiding_for(job: Job) -> Hiding:
    """What hides secrets in this job's lines: those that look like one, and its project's own keys."""
    own = file_values(job.project) if job.project else {}
    keys = [value for name, value in own.items() if secrecy_of(name) and len(value) >= SHORTEST_KEY]
    # The longest first: one key may begin with another.
    keys.sort(key=len, reverse=True)

    def hide(value: Any) -> Any:
        return redact(without(value, keys))

    return hide


def without(value: Any, keys: Sequence[str]) -> Any:
    """A copy of a decoded JSON value without these keys, and without what cannot be stored."""
    if isinstance(value, str):
        for key in keys:
            value = value.replace(key, MARKER)
        # Half a pair of surrogates is no text to a database.
        return value.encode(errors="replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {without(name, keys): without(item, keys) for name, item in value.items()}
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def rows_of(job: Job, lines: Sequence[Line], hide: Hiding) -> list[JobEvent]:
    """The rows to store for these lines, in their order."""
    return [
        JobEvent(
            job=job,
            seq=line["seq"],
            kind=line["kind"],
            at=datetime.fromtimestamp(line["at"], UTC),
            data=hide(line["data"]),
        )
        for line in lines
    ]


def end_of_log(job: Job) -> str:
    """The last of what the run printed, whole lines where there are several; empty where nothing."""
    try:
        with open(job.folder / LOG, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_END_BYTES))
            data = file.read()
    except FileNotFoundError:
        return ""
    if size > LOG_END_BYTES:
        data = data.partition(b"\n")[2] or data
    return data.decode(errors="replace")
