"""Cleans up after a job: only its redacted log stays on disk. Everything else is in the database."""

from viewer.data_folder.write_ahead_log import clear_log
from viewer.jobs.execution.following.event_rows import Redactor
from viewer.jobs.storage import storage_of
from viewer.models import Job


def clean_up(job: Job, redact: Redactor) -> None:
    """Delete the job's files except its redacted log. Its processes must have ended, its events be stored."""
    storage_of(job).clean_up(redact)
    # The user's input has been removed from the rows, but the write-ahead log may still hold it.
    clear_log()
