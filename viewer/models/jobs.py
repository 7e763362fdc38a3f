"""The jobs that a person asked for, and what happened in them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.messages.message import UserMessage
from viewer.models.locations import Location, Project
from viewer.models.message_field import UserMessageField
from viewer.models.runs import Checkpoint, Run
from viewer.models.sweeps import Sweep

# What of a request holds values that a person typed, by their names.
EDITS = ("inputs", "outputs", "state")
# The statuses of jobs that have not ended.
UNFINISHED = ("queued", "starting", "running")


logger = logging.getLogger("forkline.jobs")


class JobQuerySet(models.QuerySet["Job"]):
    """Queries for jobs."""

    def queued(self) -> JobQuerySet:
        return self.filter(status=Job.Status.QUEUED)

    def under_way(self) -> JobQuerySet:
        """Jobs whose child has been or is being started and has not ended."""
        return self.filter(status__in=[Job.Status.STARTING, Job.Status.RUNNING])

    def ended(self) -> JobQuerySet:
        return self.filter(status__in=Job.ENDED)

    def unfinished(self) -> JobQuerySet:
        return self.filter(status__in=UNFINISHED)

    def failed_starts(self) -> JobQuerySet:
        """New runs that ended before their first checkpoint, and so have no run."""
        return self.filter(kind=Job.Kind.RUN, run=None, status__in=Job.ENDED)

    def due(self) -> JobQuerySet:
        """Queued jobs that no time holds back: they have none, or it came while somebody could start them."""
        return self.queued().filter(models.Q(start_at=None) | models.Q(became_due_at__isnull=False))

    def mark_due(self) -> int:
        """Keep that the time of these has come. What passed longer ago than the grace is left to a person."""
        now = timezone.now()
        grace = timedelta(seconds=settings.START_GRACE_SECONDS)
        waiting = self.queued().filter(became_due_at=None, start_at__lte=now, start_at__gte=now - grace)
        return waiting.update(became_due_at=now)


class Job(models.Model):
    """A run, resume or fork. The row is the truth: it starts at most once; only a person starts another."""

    class Kind(models.TextChoices):
        RESUME = "resume", _("Resume")
        FORK = "fork", _("Fork")
        RUN = "run", _("New run")

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
    # What the runner is asked to do (viewer/jobs/execution/request.py), and the plan that was shown.
    request = models.JSONField(default=dict)
    plan = models.JSONField(default=list)
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    # Not before this moment; none: as soon as there is a place for it.
    start_at = models.DateTimeField(null=True, blank=True)
    # When it was seen that this moment had come. Without it, a job with a moment of its own does not start.
    became_due_at = models.DateTimeField(null=True, blank=True)
    # Tells whether a form that is sent again asks for the same, once the request holds no edits any more.
    request_digest = models.CharField(max_length=64, blank=True)
    # The form's forks that it belongs to, and which of them it is, in words.
    sweep = models.ForeignKey(Sweep, null=True, on_delete=models.SET_NULL, related_name="jobs")
    variation = models.CharField(max_length=300, blank=True)
    # How much it may use (viewer/models/limits.py), and what it has used so far.
    limits = models.JSONField(default=dict, blank=True)
    tokens = models.PositiveBigIntegerField(default=0)
    steps_used = models.PositiveIntegerField(default=0)
    # The limit at which it was stopped (viewer/jobs/limits/usage.py); empty where none stopped it.
    limit_hit = models.JSONField(default=dict, blank=True)
    process_id = models.PositiveIntegerField(null=True, blank=True)
    result = models.TextField(blank=True)
    # Why it failed, or which checkpoints of a run that succeeded could not be written.
    error = UserMessageField(null=True, blank=True)
    traceback = models.TextField(blank=True)
    log_end = models.TextField(blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["status"])]
        constraints = [
            # A queued job reserves the branch that it will write to.
            models.UniqueConstraint(
                fields=["location", "branch"],
                condition=models.Q(kind="fork", run__isnull=False, status__in=UNFINISHED),
                name="unique_unfinished_fork",
            ),
            models.UniqueConstraint(
                fields=["run", "branch"],
                condition=models.Q(kind="resume", status__in=UNFINISHED),
                name="unique_unfinished_resume",
            ),
        ]
        permissions = [("can_run", "May start, cancel and answer runs, and change what they run with")]

    def __str__(self) -> str:
        name = self.request.get("name") if self.kind == self.Kind.RUN else self.branch
        return f"{self.get_kind_display()} {name or self.checkpoint_id or ''}".rstrip()

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
    def is_incomplete(self) -> bool:
        """Whether it ran to its end, but some of its checkpoints could not be written. Its error says why."""
        return self.status == self.Status.SUCCEEDED and bool(self.error)

    @property
    def is_being_cancelled(self) -> bool:
        return self.cancel_requested_at is not None and not self.has_ended

    @property
    def is_stopped(self) -> bool:
        """Whether a limit has ended it, or is about to."""
        return bool(self.limit_hit) and self.status != self.Status.SUCCEEDED

    @property
    def is_missed(self) -> bool:
        """Whether its time passed while nothing could start it, and so long ago that a person has to."""
        if self.status != self.Status.QUEUED or self.start_at is None or self.became_due_at is not None:
            return False
        return timezone.now() - self.start_at > timedelta(seconds=settings.START_GRACE_SECONDS)

    @property
    def seconds_waiting(self) -> float:
        """How long it has waited for people so far; while two questions wait at once, that counts once."""
        now = timezone.now()
        asked = self.questions.order_by("asked_at")
        return seconds_covered((one.asked_at, one.answered_at or one.withdrawn_at or now) for one in asked)

    @property
    def is_waiting_for_an_answer(self) -> bool:
        return self.status == self.Status.RUNNING and self.questions.waiting().exists()

    def claim(self) -> bool:
        """Take a queued job, once. False where another has it, it was cancelled, or its time has not come."""
        claimed = (
            Job.objects.due().filter(pk=self.pk).update(status=Job.Status.STARTING, started_at=timezone.now())
        )
        if claimed:
            self.refresh_from_db()
            logger.info(
                "job %s started: %s at %s", self.pk, self.kind, self.location.path, extra=self._logged()
            )
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

    def end(self, status: Job.Status, error: UserMessage | None = None, **texts: str) -> bool:
        """End the job with this status and error; ``texts`` are its result, traceback and log_end.

        False if it has ended before.
        """
        values: dict[str, Any] = {
            "status": status,
            "ended_at": timezone.now(),
            "request": self.request_without_edits,
        }
        if status == self.Status.SUCCEEDED:
            # It was done before a limit could stop it.
            values["limit_hit"] = {}
        if error is not None:
            values["error"] = error
        ended = Job.objects.unfinished().filter(pk=self.pk).update(**values, **texts)
        self.refresh_from_db()
        if self.has_ended:
            self.questions.all().withdraw()
        if ended:
            self._log_end()
        return bool(ended)

    def _log_end(self) -> None:
        told = self._logged() | {"status": self.status}
        if self.started_at and self.ended_at:
            told["seconds"] = round((self.ended_at - self.started_at).total_seconds(), 3)
        logger.info("job %s %s: %s at %s", self.pk, self.status, self.kind, self.location.path, extra=told)

    def _logged(self) -> dict[str, Any]:
        """What a log line says of it: nothing that a person or a model wrote."""
        return {"job": str(self.pk), "kind": self.kind, "location": self.location.path}

    def move_start(self, start_at: datetime | None) -> bool:
        """Have it start then, or as soon as it can where that is None. False where it is queued no more."""
        moved = Job.objects.queued().filter(pk=self.pk).update(start_at=start_at, became_due_at=None)
        self.refresh_from_db()
        return bool(moved)

    def record_usage(self, *, tokens: int, steps: int) -> None:
        """Keep what it has used so far."""
        Job.objects.filter(pk=self.pk).update(tokens=tokens, steps_used=steps)
        self.tokens, self.steps_used = tokens, steps

    def stop(self, limit: dict[str, Any]) -> bool:
        """Keep at which limit it is being stopped. False where a limit or a person did so before."""
        stopped = (
            Job.objects.under_way()
            .filter(pk=self.pk, limit_hit={}, cancel_requested_at=None)
            .update(limit_hit=limit)
        )
        self.refresh_from_db()
        return bool(stopped)

    @property
    def request_without_edits(self) -> dict[str, Any]:
        """Its request, with only the names of what a person typed: what is kept when it has ended."""
        return {
            name: dict.fromkeys(value) if name in EDITS and isinstance(value, dict) else value
            for name, value in self.request.items()
        }

    def request_cancel(self) -> bool:
        """Cancel it at once where it is queued, else ask its follower to. False where it has ended."""
        now = timezone.now()
        cancelled = (
            Job.objects.queued()
            .filter(pk=self.pk)
            .update(
                status=Job.Status.CANCELLED,
                cancel_requested_at=now,
                ended_at=now,
                request=self.request_without_edits,
            )
        )
        asked = (
            Job.objects.under_way()
            .filter(pk=self.pk, cancel_requested_at=None)
            .update(cancel_requested_at=now)
        )
        self.refresh_from_db()
        if cancelled:
            self._log_end()
        return bool(cancelled or asked)


def seconds_covered(spans: Iterable[tuple[datetime, datetime]]) -> float:
    """How long at least one of these spans lasted. They come in the order of their beginnings."""
    seconds, until = 0.0, None
    for start, ends in spans:
        begins = start if until is None else max(start, until)
        if ends > begins:
            seconds += (ends - begins).total_seconds()
            until = ends
    return seconds


class JobEvent(models.Model):
    """One line of a job's spool, redacted. The kinds are listed in viewer/jobs/spool.py."""

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
