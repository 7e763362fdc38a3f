"""The events of jobs."""

from __future__ import annotations

from django.db import models

from viewer.models.jobs.job import Job


class JobEvent(models.Model):
    """One spool event of a job, redacted. The kinds are listed in viewer/jobs/spool.py."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="unique_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
