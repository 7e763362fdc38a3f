"""What is stored: where checkpoints stand, what was read of them, and the jobs that ran."""

from __future__ import annotations

import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, functions
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Project(models.Model):
    """The folder, interpreter and entry points that a location's runs belong to."""

    folder = models.CharField(max_length=1000)
    interpreter = models.CharField(max_length=1000)
    environment_file = models.CharField(max_length=1000, blank=True)
    # "module:Class" for a flow; for a crew it is optional.
    entry_points = models.JSONField(default=list, blank=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return Path(self.folder).name

    @property
    def is_confirmed(self) -> bool:
        return self.confirmed_at is not None

    def change(self, *, interpreter: str, environment_file: str, entry_points: list[str]) -> None:
        """Take these values. Where one differs, what a person agreed to is no more: not confirmed."""
        values = {
            "interpreter": interpreter,
            "environment_file": environment_file,
            "entry_points": entry_points,
        }
        if any(getattr(self, name) != value for name, value in values.items()):
            self.confirmed_at = self.confirmed_by = None
        for name, value in values.items():
            setattr(self, name, value)
        self.save()

    def confirm(self, user: Any) -> None:
        """Record that a person has agreed to run programs of this project."""
        self.confirmed_at = timezone.now()
        self.confirmed_by = user
        self.save(update_fields=["confirmed_at", "confirmed_by"])


class LocationQuerySet(models.QuerySet["Location"]):
    def with_counts(self) -> LocationQuerySet:
        """Each with ``run_count``, ``checkpoint_count`` and ``problem_count``."""
        problems = Problem.objects.filter(location=models.OuterRef("pk")).order_by().values("location")
        return self.annotate(
            run_count=models.Count("runs"),
            checkpoint_count=models.Sum("runs__checkpoint_count", default=0),
            problem_count=functions.Coalesce(
                models.Subquery(problems.annotate(count=models.Count("pk")).values("count")), 0
            ),
        )


class Location(models.Model):
    """A folder or database that checkpoints stand in. It is only ever read."""

    class Provider(models.TextChoices):
        JSON = "json", _("JSON folder")
        SQLITE = "sqlite", _("SQLite file")

    # Made from the path, so that links outlive a fresh data folder.
    uid = models.UUIDField(unique=True, editable=False)
    path = models.CharField(max_length=1000, unique=True)
    provider = models.CharField(max_length=20, choices=Provider)
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.SET_NULL, related_name="locations"
    )
    added_at = models.DateTimeField(default=timezone.now)
    imported_at = models.DateTimeField(null=True, blank=True)
    # Why the location itself could not be read at the last import; empty where it could.
    unreadable = models.TextField(blank=True)
    # Grows with every import that changed something; open pages follow it.
    revision = models.PositiveIntegerField(default=0)

    objects = LocationQuerySet.as_manager()

    class Meta:
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.uid:
            self.uid = uuid.uuid5(uuid.NAMESPACE_URL, f"file://{self.path}")
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("location", args=[self.uid])

    def note_import(self, at: datetime, unreadable: str, is_news: bool) -> None:
        """Record that it was looked at; where that brought news, open pages are to follow."""
        self.imported_at, self.unreadable = at, unreadable
        changes: dict[str, Any] = {"imported_at": at, "unreadable": unreadable}
        if is_news:
            changes["revision"] = F("revision") + 1
        Location.objects.filter(pk=self.pk).update(**changes)
        if is_news:
            self.refresh_from_db(fields=["revision"])

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def parent_name(self) -> str:
        return Path(self.path).parent.name


class Problem(models.Model):
    """A file or row of a location that is no readable checkpoint, and why."""

    class Kind(models.TextChoices):
        WRITING = "writing", _("still being written")
        BROKEN = "broken", _("broken")
        FOREIGN = "foreign", _("not a checkpoint")

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="problems")
    key = models.CharField(max_length=1000)
    reason = models.TextField()
    kind = models.CharField(max_length=20, choices=Kind)
    fingerprint = models.CharField(max_length=200, blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["key"]
        constraints = [models.UniqueConstraint(fields=["location", "key"], name="one_problem_a_key")]

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class Run(models.Model):
    """One kickoff, with every branch that was continued or forked from it."""

    uid = models.UUIDField(unique=True, editable=False)
    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="runs")
    # What the engine calls it: the kickoff's event id, or the root entity's id.
    key = models.CharField(max_length=200)
    entity = models.CharField(max_length=20)
    name = models.CharField(max_length=300, blank=True)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    checkpoint_count = models.PositiveIntegerField(default=0)
    branch_count = models.PositiveIntegerField(default=0)
    lane_count = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    # Faults of the lineage in plain words, such as a cycle.
    lineage_faults = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = [F("last_at").desc(nulls_last=True), "-pk"]
        constraints = [models.UniqueConstraint(fields=["location", "key"], name="one_run_a_key")]

    def __str__(self) -> str:
        return self.name or self.key

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.uid:
            self.uid = run_uid(self.location.uid, self.key)
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.uid])


def run_uid(location_uid: uuid.UUID, key: str) -> uuid.UUID:
    """The address of a run, the same after every import."""
    return uuid.uuid5(location_uid, key)


class Checkpoint(models.Model):
    """One checkpoint as it was read: what its row in the list shows, and where it hangs."""

    class Edge(models.TextChoices):
        RECORDED = "recorded", _("recorded")
        INFERRED = "inferred", _("inferred")
        MISSING = "missing", _("parent missing")
        ROOT = "root", _("start")

    class State(models.TextChoices):
        PRESENT = "present", _("present")
        PRUNED = "pruned", _("pruned at the source, kept here")
        WRITING = "writing", _("still being written")
        BROKEN = "broken", _("broken since")

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="checkpoints")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    # Where it stands in its location: a relative path, or a row's id.
    key = models.CharField(max_length=1000)
    fingerprint = models.CharField(max_length=200)
    # As the engine writes them.
    checkpoint_id = models.CharField(max_length=300)
    parent_checkpoint_id = models.CharField(max_length=300, blank=True)
    # What the engine tells one kickoff from another by; connected checkpoints of several are one run.
    run_key = models.CharField(max_length=200, blank=True)
    branch = models.CharField(max_length=300)
    trigger = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(null=True)
    engine_version = models.CharField(max_length=50, blank=True)
    entity = models.CharField(max_length=20)
    name = models.CharField(max_length=300, blank=True)
    tasks_done = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=0)
    event_count = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)
    state = models.CharField(max_length=20, choices=State, default=State.PRESENT)
    # The lineage, settled at import.
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    edge = models.CharField(max_length=20, choices=Edge, default=Edge.ROOT)
    lane = models.PositiveIntegerField(default=0)
    # 0 is the oldest; the list shows the highest on top.
    row = models.PositiveIntegerField(default=0)
    # Nothing continues its branch: the branch's name stands here.
    is_branch_head = models.BooleanField(default=False)

    class Meta:
        ordering = ["-row"]
        constraints = [models.UniqueConstraint(fields=["location", "key"], name="one_checkpoint_a_key")]
        indexes = [
            models.Index(fields=["run", "row"]),
            models.Index(fields=["location", "checkpoint_id"]),
            models.Index(fields=["location", "parent_checkpoint_id"]),
            models.Index(fields=["location", "run_key"]),
        ]

    def __str__(self) -> str:
        return self.checkpoint_id

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.run.uid], query={"at": self.checkpoint_id})

    @property
    def source(self) -> str:
        """Where the engine finds it: a file's path, or ``store.db#id``."""
        if self.location.provider == Location.Provider.SQLITE:
            return f"{self.location.path}#{self.checkpoint_id}"
        return str(Path(self.location.path) / self.key)


class CheckpointBody(models.Model):
    """The stored copy of a checkpoint, redacted and compressed. It outlives the source."""

    checkpoint = models.OneToOneField(
        Checkpoint, primary_key=True, on_delete=models.CASCADE, related_name="body"
    )
    data = models.BinaryField()
    # Sixteen bytes for each event of the record, oldest first: what an unrecorded parent is inferred from.
    event_ids = models.BinaryField(default=bytes)
    # The model calls among them, as [position in the record, tokens].
    calls = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.pk}: {len(self.data)} bytes"


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
