"""Removing old data once a day, by the rules of the settings."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.utils import timezone

from viewer.locks import lock_named
from viewer.retention.removing import old_data, remove

logger = logging.getLogger("forkline.retention")

# The lock's note is the day on which a process began to remove, so that others do not.
LOCK = "retention"


def remove_once_a_day(is_stopping: Callable[[], bool] = lambda: False) -> tuple[int, int] | None:
    """Remove what the settings call old. Returns how many events and jobs; None if it was not due.

    Only one process does so on a day. What is left when it ``is_stopping`` waits for the next day.
    """
    days = settings.RETENTION_EVENT_DAYS, settings.RETENTION_JOB_DAYS
    today = timezone.now().date().isoformat()
    lock = lock_named(LOCK)
    if days == (None, None) or lock.note() == today:
        return None
    with lock.held(note=today) as is_ours:
        if not is_ours:
            return None
        events, jobs = remove(old_data(*days), is_stopping)
    if events or jobs:
        logger.info("removed %d events and %d jobs", events, jobs)
    return events, jobs
