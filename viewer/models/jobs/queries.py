"""Which jobs are queued, due, under way or ended."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.utils import timezone

if TYPE_CHECKING:
    from viewer.models.jobs.job import Job  # noqa: F401 - the query set is one of jobs

# The statuses of jobs that have not ended.
UNFINISHED = ("queued", "starting", "running")


class JobQuerySet(models.QuerySet["Job"]):
    """Queries for jobs."""

    def queued(self) -> JobQuerySet:
        return self.filter(status=self.model.Status.QUEUED)

    def under_way(self) -> JobQuerySet:
        """Jobs that are starting or running."""
        return self.filter(status__in=[self.model.Status.STARTING, self.model.Status.RUNNING])

    def ended(self) -> JobQuerySet:
        return self.filter(status__in=self.model.ENDED)

    def unfinished(self) -> JobQuerySet:
        return self.filter(status__in=UNFINISHED)

    def failed_starts(self) -> JobQuerySet:
        """New runs that ended before their first checkpoint, and therefore have no run."""
        return self.filter(kind=self.model.Kind.RUN, run=None, status__in=self.model.ENDED)

    def due(self) -> JobQuerySet:
        """Queued jobs without a start time, or whose start time has been marked as due."""
        return self.queued().filter(models.Q(start_at=None) | models.Q(became_due_at__isnull=False))

    def mark_due(self) -> int:
        """Mark the jobs whose start time has come. Return the number of marked jobs.

        Jobs whose start time is before the grace period missed it: a person has to start them.
        """
        now = timezone.now()
        grace = timedelta(seconds=settings.START_GRACE_SECONDS)
        waiting = self.queued().filter(became_due_at=None, start_at__lte=now, start_at__gte=now - grace)
        return waiting.update(became_due_at=now)
