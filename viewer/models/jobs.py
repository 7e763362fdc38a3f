"""The jobs that a person asked for, and what happened in them."""

from __future__ import annotations

import uuid
from pathlib import Path

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location, Project
from viewer.models.runs import Checkpoint, Run


class JobQuerySet(models.QuerySet["Job"]):
    def queued(self) -> JobQuerySet:
        return self.filter(status=Job.Status.QUEUED)

    def under_way(self) -> JobQuerySet:
        """Jobs whose child has been or is being started and has not ended."""
        return self.filter(status__in=[Job.Status.STARTING, Job.Status.RUNNING])

    def ended(self) -> JobQuerySet:
        return self.filter(status__in=Job.ENDED)

    def unfinished(self) -> JobQuerySet:
        return self.filter(status__in=[Job.Status.QUEUED, Job.Status.STARTING, Job.Status.RUNNING])


class Job(models.Model):
    """One resume or fork. The row is the truth: it starts at most once, and only a person starts another."""

    class Kind(models.TextChoices):
        RESUME = "resume", _("Resume")
        FORK = "fork", _("Fork")

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        STARTING = "starting", _("starting")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        INTERRUPTED = "interrupted", _("interrupted")

    ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # A form is given one when it is shown; sending it twice finds the same job.
    idempotency_key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=20, choices=Kind)
    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="jobs")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="jobs")
    checkpoint = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="jobs")
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="jobs")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="jobs"
    )
    branch = models.CharField(max_length=300, blank=True)
    # What the child is asked to do (viewer/jobs/request.py), and what was promised (viewer/jobs/plan.py).
    request = models.JSONField(default=dict)
    plan = models.JSONField(default=list)
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    process_id = models.PositiveIntegerField(null=True, blank=True)
    result = models.TextField(blank=True)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    log_end = models.TextField(blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["status"])]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.branch or self.checkpoint_id}"

    def get_absolute_url(self) -> str:
        return reverse("job", args=[self.id])

    @property
    def folder(self) -> Path:
        """Where its request, spool, log and lock stand."""
        return Path(settings.DATA_DIR) / "jobs" / str(self.id)

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED

    @property
    def is_being_cancelled(self) -> bool:
        return self.cancel_requested_at is not None and not self.has_ended

    def claim(self) -> bool:
        """Take a queued job, once. False where another has taken it, or a person cancelled it."""
        claimed = (
            Job.objects.queued()
            .filter(pk=self.pk)
            .update(status=Job.Status.STARTING, started_at=timezone.now())
        )
        if claimed:
            self.refresh_from_db()
        return bool(claimed)

    def note_process(self, process_id: int) -> None:
        """Keep which process its child is."""
        Job.objects.under_way().filter(pk=self.pk).update(process_id=process_id)
        self.process_id = process_id

    def mark_running(self) -> bool:
        """Its child has spoken. False where it was running already, or has ended."""
        marked = Job.objects.filter(pk=self.pk, status=Job.Status.STARTING).update(status=Job.Status.RUNNING)
        if marked:
            self.status = Job.Status.RUNNING
        return bool(marked)

    def end(self, status: Job.Status, **words: str) -> bool:
        """End it, once; ``words`` are its result, error, traceback and log_end. False where it has ended."""
        ended = (
            Job.objects.unfinished()
            .filter(pk=self.pk)
            .update(status=status, ended_at=timezone.now(), **words)
        )
        self.refresh_from_db()
        return bool(ended)

    def request_cancel(self) -> bool:
        """Cancel it at once where it is queued, else ask its follower to. False where it has ended."""
        now = timezone.now()
        cancelled = (
            Job.objects.queued()
            .filter(pk=self.pk)
            .update(status=Job.Status.CANCELLED, cancel_requested_at=now, ended_at=now)
        )
        asked = (
            Job.objects.under_way()
            .filter(pk=self.pk, cancel_requested_at=None)
            .update(cancel_requested_at=now)
        )
        self.refresh_from_db()
        return bool(cancelled or asked)


class JobEvent(models.Model):
    """One line of a job's spool, redacted. The kinds are listed in viewer/jobs/spool.py."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="one_event_a_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
