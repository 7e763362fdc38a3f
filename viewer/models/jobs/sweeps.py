"""Sweeps: several forks of one checkpoint that start together."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from viewer.models.jobs.queries import JobQuerySet
from viewer.models.runs import Checkpoint


class Sweep(models.Model):
    """The forks of one form. Each is a job, and so is the scoring of its end; all share the limits."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    idempotency_key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=300)
    checkpoint = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="sweeps")
    # As in Job.limits, for all its jobs together.
    limits = models.JSONField(default=dict, blank=True)
    # The project's function that scores the end result of each branch, as module:function; empty for none.
    score = models.CharField(max_length=200, blank=True, default="", db_default="")
    created_at = models.DateTimeField(default=timezone.now)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("sweep", args=[self.id])

    @property
    def branches(self) -> JobQuerySet:
        """Its forks, the first one first. Its other jobs score their end results."""
        return self.jobs.exclude(kind=self.jobs.model.Kind.SCORE).order_by("created_at")
