"""Which runs are listed, described or being written."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

if TYPE_CHECKING:
    from viewer.models.runs import Run  # noqa: F401 - the query set is one of runs

# A checkpoint that is newer than this is of a run that continues, unless it is at an end.
WRITTEN_WITHIN = timedelta(minutes=1)


class RunQuerySet(models.QuerySet["Run"]):
    """Queries for runs."""

    def top_level(self) -> RunQuerySet:
        """The runs that no other run called."""
        return self.filter(parent=None)

    def undescribed(self) -> RunQuerySet:
        """The runs whose newest checkpoint has changed since their status was read."""
        return self.filter(parent=None).exclude(described_head=F("head"))

    def without_inputs(self) -> RunQuerySet:
        """The runs whose inputs have not been read, newest first."""
        return self.filter(parent=None, is_described=False)

    def being_written(self) -> RunQuerySet:
        """The runs that another program seems to write now.

        Their newest checkpoint was written in the last minute, and is no end, failure or question. Runs for
        which one of our jobs runs, or has ended in that minute, are left out: the job wrote that checkpoint.
        """
        now = timezone.now()
        # Runs that are listed before their checkpoints have only one status.
        undecided = Q(head="", newest_status__in=("", "unknown")) | (
            ~Q(head="") & Q(status__in=("", "unfinished"))
        )
        recent = self.filter(undecided, last_at__range=(now - WRITTEN_WITHIN, now + WRITTEN_WITHIN))
        inactive = recent.exclude(jobs__status__in=("starting", "running"))
        return inactive.exclude(jobs__ended_at__gte=now - WRITTEN_WITHIN)
