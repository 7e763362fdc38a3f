"""Jobs: launches that a person has requested, with their sweeps, limits, events and questions."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, models
from django.db.models import Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.messages.message import UserMessage
from viewer.models.hosts import Host, HostQuerySet
from viewer.models.locations import Location, Project, own_host_key
from viewer.models.roles import Access, VisibleManager, VisibleQuerySet, visible_rows
from viewer.models.rows import Metered, UserMessageField
from viewer.models.runs import Checkpoint, Run

# Which jobs are queued, due, under way or ended.

# The statuses of jobs that have not ended.
UNFINISHED = ("queued", "starting", "running")


class JobQuerySet(VisibleQuerySet["Job"]):
    """Queries for jobs."""

    def here(self) -> JobQuerySet:
        """Jobs that this machine claimed, and unclaimed jobs that it may claim.

        Only this machine starts and follows them.
        """
        return self.of(Host.objects.here())

    def of(self, hosts: HostQuerySet | Collection[Host]) -> JobQuerySet:
        """Jobs that a host claimed, and unclaimed jobs that it may claim. ``hosts`` has one host at most.

        Without a join, so that an update of these rows checks its other conditions on the rows themselves.
        PostgreSQL does not check them again in a subquery after it has waited for another update.
        """
        mine = models.Q(host__in=hosts)
        return self.filter(mine | models.Q(host=None, location__in=Location.objects.runnable_by(hosts)))

    def queued(self) -> JobQuerySet:
        return self.filter(status=self.model.Status.QUEUED)

    def under_way(self) -> JobQuerySet:
        """Jobs that are starting or running."""
        return self.filter(status__in=[self.model.Status.STARTING, self.model.Status.RUNNING])

    def ended(self) -> JobQuerySet:
        return self.filter(status__in=self.model.ENDED)

    def unfinished(self) -> JobQuerySet:
        return self.filter(status__in=UNFINISHED)

    def begins_with(self, text: str) -> JobQuerySet:
        """Jobs whose id begins with this text, with or without hyphens: PostgreSQL compares them as well."""
        digits = text.replace("-", "").lower()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return self.filter(pk__startswith="-".join(part for part in parts if part)) if digits else self.none()

    def failed_starts(self) -> JobQuerySet:
        """New runs that ended before their first checkpoint, and therefore have no run."""
        return self.filter(kind=self.model.Kind.RUN, run=None, status__in=self.model.ENDED)

    def scores_of(self, checkpoints: Collection[int]) -> JobQuerySet:
        """Scores of these checkpoints. Other scores are of a call that one records."""
        scores = self.filter(kind=self.model.Kind.SCORE, checkpoint__in=checkpoints)
        # has_key needs jsonb on PostgreSQL, and these columns are json.
        call = Coalesce(KT("request__scored_call"), Value(""), output_field=models.TextField())
        return scores.alias(scored_call=call).filter(scored_call="")

    def due(self) -> JobQuerySet:
        """Queued jobs without a start time, or whose start time has been marked as due."""
        return self.queued().filter(models.Q(start_at=None) | models.Q(became_due_at__isnull=False))

    def mark_due(self) -> int:
        """Mark the jobs whose start time has come. Return the number of marked jobs.

        Jobs whose start time is before the grace period missed it: a person has to start them. Times are
        compared in the database, because the clocks of machines may differ.
        """
        grace = timedelta(seconds=settings.START_GRACE_SECONDS)
        has_come = models.Q(start_at__lte=Now(), start_at__gte=Now() - grace)
        return self.queued().filter(has_come, became_due_at=None).update(became_due_at=Now())


# Sweeps: several forks of one checkpoint that start together.


class SweepQuerySet(VisibleQuerySet["Sweep"]):
    """Queries for sweeps."""

    def condition(self, access: Access, level: int) -> models.Q:
        """Those of a checkpoint, or with a job, on which the person has the level."""
        checkpoints = visible_rows(Checkpoint, access, level).filter(pk=models.OuterRef("checkpoint"))
        jobs = visible_rows(Job, access, level).filter(sweep=models.OuterRef("pk"))
        return models.Q(models.Exists(checkpoints) | models.Exists(jobs))


class Sweep(models.Model):
    """The forks of one form. Each is a job, and so is the scoring of its end; all share the limits.

    With ``is_of_runs``, they are of several runs, and ``checkpoint`` is None. With ``is_of_calls``, they are
    replays of model calls, otherwise forks or resumes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    idempotency_key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=300)
    checkpoint = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="sweeps")
    is_of_runs = models.BooleanField(default=False, db_default=False)
    # Whose checkpoints it forks or calls it replays, if it was started from there.
    collection = models.ForeignKey(
        "viewer.Collection", null=True, blank=True, on_delete=models.SET_NULL, related_name="sweeps"
    )
    # As in Job.limits, for all its jobs together.
    limits = models.JSONField(default=dict, blank=True)
    # The project's function that scores the end result of each branch, as module:function; empty for none.
    score = models.CharField(max_length=200, blank=True, default="", db_default="")
    created_at = models.DateTimeField(default=timezone.now)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(SweepQuerySet)()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("sweep", args=[self.id])

    @property
    def is_of_calls(self) -> bool:
        """Whether its jobs replay model calls."""
        return self.jobs.filter(kind=self.jobs.model.Kind.REPLAY).exists()

    @property
    def label(self) -> str:
        """What its jobs are, together."""
        if self.is_of_calls:
            return gettext("Replayed calls")
        return gettext("Several runs") if self.is_of_runs else gettext("Sweep")

    @property
    def branches(self) -> JobQuerySet:
        """Its forks, the first one first. Its other jobs score their end results."""
        return self.jobs.exclude(kind=self.jobs.model.Kind.SCORE).order_by("created_at")


# The measures of limits, and the daily limits of all jobs.


# Limits are stored by measure, without the unset ones: {"tokens": 50000, "seconds": 600, "steps": 20}.
MEASURES = ("tokens", "seconds", "steps")


class DayLimits(models.Model):
    """The daily limits of all jobs together. There is at most one row."""

    # Always true, and unique, so that there is only one row.
    is_current = models.BooleanField(default=True, unique=True, editable=False)
    limits = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(is_current=True), name="day_limits_are_current")
        ]

    def __str__(self) -> str:
        return str(self.limits)

    @classmethod
    def current(cls) -> dict[str, Any]:
        """Return the limits; empty if there are none."""
        return cls.objects.values_list("limits", flat=True).first() or {}

    @classmethod
    def change(cls, limits: dict[str, Any]) -> None:
        """Set and save the limits."""
        cls.objects.update_or_create(is_current=True, defaults={"limits": limits})


# The code that jobs ran: which commit, and which sources. Jobs that ran the same code share a row.


class RecordedCode(models.Model):
    """The digest of each source of a project by its path, and the commit, as they were when a job started.

    ``is_dirty``: whether the project's folder differed from the commit; None if that is not known. If not
    ``is_complete``, the project had more sources.
    """

    # Of all other columns.
    digest = models.CharField(max_length=64, unique=True)
    # Empty if the project is not in a git repository.
    commit = models.CharField(max_length=64, blank=True)
    is_dirty = models.BooleanField(null=True)
    is_complete = models.BooleanField(default=True)
    files = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.short_commit or self.digest[:12]

    @property
    def short_commit(self) -> str:
        return self.commit[:12]

    @classmethod
    def stored(
        cls, files: Mapping[str, str], commit: str, *, is_dirty: bool | None, is_complete: bool
    ) -> RecordedCode:
        """Return the row with these values, stored if it is new."""
        values = {"commit": commit, "is_dirty": is_dirty, "is_complete": is_complete, "files": dict(files)}
        digest = sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
        return cls.objects.get_or_create(digest=digest, defaults=values)[0]

    @classmethod
    def of(cls, checkpoint: Checkpoint, project: Project | None) -> RecordedCode | None:
        """Return the code that the job recorded which wrote this checkpoint with this project.

        A project of another host is compared with the code of the checkpoint's own project.
        """
        own = checkpoint.location
        if project and project.host_id != own.host_id:
            project = own.project
        if project is None:
            return None
        jobs = Job.objects.filter(run=checkpoint.run_id, project=project, code__isnull=False)
        wrote = jobs.filter(events__kind="checkpoint", events__data__id=checkpoint.checkpoint_id)
        job = wrote.select_related("code").order_by("-started_at").first()
        return job.code if job else None


# Jobs: launches that a person has requested.


# The keys of a request whose values a person typed.
EDITS = ("inputs", "outputs", "state", "configurable", "context", "answers", "call")


def without_edits(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request that is stored after the end: with the names of edits, but without their values."""
    return {
        name: dict.fromkeys(value) if name in EDITS and isinstance(value, dict) else value
        for name, value in request.items()
    }


# Precedes the inode of SQLite's file in ``Job.queued_in``.
FILE_PREFIX = "file:"
# A job that one host may claim. Any host of a pool may claim the others.
OF_ONE_HOST = models.Q(queued_in="") | models.Q(queued_in__startswith=FILE_PREFIX)


def file_identity() -> str:
    """Return what identifies the file of the database, which differs for a copy; empty on a server."""
    if connection.vendor != "sqlite":
        return ""
    with suppress(OSError):
        return f"{FILE_PREFIX}{Path(connection.settings_dict['NAME']).stat().st_ino}"
    return ""


logger = logging.getLogger("forkline.jobs")


class Job(Metered):
    """A launch of one of these kinds. It starts at most once; only a person starts another."""

    class Kind(models.TextChoices):
        RESUME = "resume", _("Resume")
        FORK = "fork", _("Fork")
        RUN = "run", _("New run")
        PUBLISH = "publish", _("Publish")
        SCORE = "score", _("Score")
        REPLAY = "replay", _("Replay")

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        STARTING = "starting", _("starting")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        INTERRUPTED = "interrupted", _("interrupted")

    ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED)
    # The checkpoint may be at another location than the one to which the job writes.
    BELONGS_TO = ("location", "checkpoint")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # Each rendered form has one, so that submitting it twice finds the same job.
    idempotency_key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=20, choices=Kind)
    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="jobs")
    # The host that claimed it and has its files. No other host claims a queued job that has one.
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.SET_NULL, related_name="jobs")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="jobs")
    checkpoint = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="jobs")
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="jobs")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="jobs"
    )
    # The key of requested_by, also after that account was deleted. None at the terminal.
    requester_key = models.PositiveBigIntegerField(null=True, blank=True, editable=False)
    # The admin who let it start, with their rights, although its requester had lost the right to run it.
    continued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    branch = models.CharField(max_length=300, blank=True)
    # The runner's request (viewer/records/runner_requests.py), and the plan that was shown.
    request = models.JSONField(default=dict)
    plan = models.JSONField(default=list)
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    # The earliest start. If empty, it starts as soon as a worker slot is free.
    start_at = models.DateTimeField(null=True, blank=True)
    # If any host of a pool may claim it, the database in which it was queued (viewer/postgresql), which a
    # standby and a restored backup are not; with SQLite, its file, which a copy is not. It never changes.
    queued_in = models.CharField(max_length=100, blank=True, default="", db_default="")
    # When the job became due. A job with a start time starts only if this is set.
    became_due_at = models.DateTimeField(null=True, blank=True)
    # Detects whether a resubmitted form has the same content, even after the edits were deleted.
    request_digest = models.CharField(max_length=64, blank=True)
    # The sweep that it belongs to, and a description of its variation.
    sweep = models.ForeignKey(Sweep, null=True, on_delete=models.SET_NULL, related_name="jobs")
    variation = models.CharField(max_length=300, blank=True)
    # Its limits (viewer/models/jobs.py), and its usage so far.
    limits = models.JSONField(default=dict, blank=True)
    tokens = models.PositiveBigIntegerField(default=0)
    steps_used = models.PositiveIntegerField(default=0)
    # The limit that stopped it (viewer/records/limits.py), or empty.
    limit_hit = models.JSONField(default=dict, blank=True)
    # The units before which it stopped at a breakpoint. A resume continues there.
    stopped_before = models.JSONField(default=list, db_default=[], blank=True)
    process_id = models.PositiveIntegerField(null=True, blank=True)
    # The sandbox and limits that were in force, as reported (viewer/host/jobs/sandbox.py).
    isolation = models.JSONField(default=dict, blank=True, db_default={})
    # The project's code when it started; None if it could not be read, or if none of it runs.
    code = models.ForeignKey(RecordedCode, null=True, on_delete=models.SET_NULL, related_name="jobs")
    # The keys that its run did not get (viewer/host/jobs/kept_keys.py), each with the address of its use.
    kept_keys = models.JSONField(default=dict, blank=True, db_default={})
    result = models.TextField(blank=True)
    # Why it failed, or why checkpoints of a succeeded run could not be written.
    error = UserMessageField(null=True, blank=True)
    traceback = models.TextField(blank=True)
    log_end = models.TextField(blank=True)

    objects = VisibleManager.from_queryset(JobQuerySet)()

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
        # Of versions before roles: migration 0002 gives roles to who had it.
        permissions = [("can_run", "May start, cancel and answer runs, and change what they run with")]

    def __str__(self) -> str:
        name = self.request.get("name") if self.kind == self.Kind.RUN else self.branch
        return f"{self.get_kind_display()} {name or self.checkpoint_id or ''}".rstrip()

    def get_absolute_url(self) -> str:
        return reverse("job", args=[self.id])

    def save(self, *args: Any, **options: Any) -> None:
        """Save the row. A new one records the key of its requester, and the file in which it is queued."""
        if self._state.adding:
            self.requester_key = self.requester_key or self.requested_by_id
            self.queued_in = self.queued_in or file_identity()
        super().save(*args, **options)

    @property
    def folder(self) -> Path:
        """The folder of its request, spool, log and lock."""
        return Path(settings.DATA_DIR) / "jobs" / str(self.id)

    @property
    def replayed_call(self) -> str:
        """The name of the recorded call that it replays; empty for another job."""
        return str((self.request.get("replay") or {}).get("recorded") or "")

    @property
    def commit(self) -> str:
        """The recorded commit that it runs; empty for the code in the project's folder."""
        return str((self.request.get("options") or {}).get("commit") or "")

    @property
    def runs_on(self) -> Host:
        """The host that claimed it; until then, that of its location."""
        return self.host or self.location.host

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED

    @property
    def is_incomplete(self) -> bool:
        """Whether it succeeded, but some checkpoints could not be written. Its error says why."""
        return self.status == self.Status.SUCCEEDED and bool(self.error)

    @property
    def is_at_breakpoint(self) -> bool:
        """Whether it succeeded by reaching a breakpoint."""
        return self.status == self.Status.SUCCEEDED and bool(self.stopped_before)

    @property
    def is_being_cancelled(self) -> bool:
        return self.cancel_requested_at is not None and not self.has_ended

    @property
    def is_stopped(self) -> bool:
        """Whether a limit has stopped it or is stopping it."""
        return bool(self.limit_hit) and self.status != self.Status.SUCCEEDED

    @property
    def is_missed(self) -> bool:
        """Whether its start time passed without a worker, and the grace period is over."""
        if self.status != self.Status.QUEUED or self.start_at is None or self.became_due_at is not None:
            return False
        return timezone.now() - self.start_at > timedelta(seconds=settings.START_GRACE_SECONDS)

    @cached_property
    def is_waiting_for_an_answer(self) -> bool:
        """Whether a question waited when this was first read. A page reads it several times."""
        return self.status == self.Status.RUNNING and self.questions.waiting().exists()

    @property
    def acts_for(self) -> AbstractBaseUser | None:
        """Whose rights it has; None for a terminal, and for an account that was deleted."""
        return self.continued_by or self.requested_by

    @property
    def is_from_terminal(self) -> bool:
        """Whether no account requested it."""
        return self.requester_key is None and self.requested_by is None

    @property
    def is_on_other_host(self) -> bool:
        """Whether it forks a checkpoint of another location, which another host reads."""
        return self.checkpoint is not None and self.checkpoint.location_id != self.location_id

    @property
    def is_in_copy(self) -> bool:
        """Whether it was queued in another file than that of this database, and may have run from there."""
        own = file_identity()
        return bool(own) and self.queued_in.startswith(FILE_PREFIX) and self.queued_in != own

    def claim(self, database: str | None = None) -> bool:
        """Claim a queued job for this process, and record this machine as its host.

        Return False if it was claimed before, was cancelled, is not due, or is another machine's. With the
        identity of this database, also if several hosts could claim it, and it was queued in another one: the
        claim of another host may have been lost. The same holds for a copy of the file.
        """
        start = {"status": Job.Status.STARTING, "started_at": timezone.now(), "host": own_host_key()}
        due = Job.objects.due().here().filter(pk=self.pk)
        if database is not None:
            in_no_pool = OF_ONE_HOST & models.Q(location__in=Location.objects.filter(pool=None))
            of_one_host = models.Q(host__isnull=False) | in_no_pool
            due = due.filter(of_one_host | models.Q(queued_in=database) if database else of_one_host)
            if own := file_identity():
                due = due.exclude(~models.Q(queued_in=own), queued_in__startswith=FILE_PREFIX)
        claimed = due.update(**start)
        if claimed:
            self.refresh_from_db()
            logger.info(
                "job %s started: %s at %s", self.pk, self.kind, self.location.path, extra=self._log_fields()
            )
        return bool(claimed)

    def record_process(self, process_id: int, isolation: Mapping[str, Any] | None = None) -> None:
        """Record the id of its runner's process, and what of its project's isolation is in force."""
        values = {"process_id": process_id, "isolation": dict(isolation or {})}
        Job.objects.under_way().filter(pk=self.pk).update(**values)
        self.process_id, self.isolation = process_id, values["isolation"]

    def record_kept_keys(self, kept: Mapping[str, str]) -> None:
        """Record the keys that its run did not get, each with its address."""
        Job.objects.filter(pk=self.pk).update(kept_keys=dict(kept))
        self.kept_keys = dict(kept)

    def record_code(self, code: RecordedCode) -> None:
        """Record the project's code as it is at the start."""
        Job.objects.filter(pk=self.pk).update(code=code)
        self.code = code

    def mark_running(self) -> bool:
        """Mark a starting job as running. Return False if it was not starting."""
        marked = Job.objects.filter(pk=self.pk, status=Job.Status.STARTING).update(status=Job.Status.RUNNING)
        if marked:
            self.status = Job.Status.RUNNING
        return bool(marked)

    def end(self, status: Job.Status, error: UserMessage | None = None, **texts: str) -> bool:
        """End the job with this status and error; ``texts`` are its result, traceback and log_end.

        Return False if it had ended before.
        """
        values: dict[str, Any] = {
            "status": status,
            "ended_at": timezone.now(),
            "request": without_edits(self.request),
        }
        if status == self.Status.SUCCEEDED:
            # The run finished before the limit could stop it.
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
        fields = self._log_fields() | {"status": self.status}
        if self.started_at and self.ended_at:
            fields["seconds"] = round((self.ended_at - self.started_at).total_seconds(), 3)
        logger.info("job %s %s: %s at %s", self.pk, self.status, self.kind, self.location.path, extra=fields)

    def _log_fields(self) -> dict[str, Any]:
        """The fields of a log line. They contain nothing that a person or a model wrote."""
        return {"job": str(self.pk), "kind": self.kind, "location": self.location.path}

    def continue_as(self, person: AbstractBaseUser) -> bool:
        """Let it start with the rights of this person. Return False if it is no longer queued."""
        updated = Job.objects.queued().filter(pk=self.pk).update(continued_by=person)
        self.refresh_from_db()
        return bool(updated)

    def move_start(self, start_at: datetime | None) -> bool:
        """Set its start time; None is now. Return False if it is no longer queued."""
        updated = Job.objects.queued().filter(pk=self.pk).update(start_at=start_at, became_due_at=None)
        self.refresh_from_db()
        return bool(updated)

    def record_breakpoint(self, units: Sequence[str]) -> None:
        """Record the units before which it stopped."""
        Job.objects.filter(pk=self.pk).update(stopped_before=list(units))
        self.stopped_before = list(units)

    def record_usage(self, *, tokens: int, steps: int) -> None:
        """Record its usage so far."""
        Job.objects.filter(pk=self.pk).update(tokens=tokens, steps_used=steps)
        self.tokens, self.steps_used = tokens, steps

    def stop(self, limit: dict[str, Any]) -> bool:
        """Record the limit that stops it. Return False if a limit or a person stopped it before."""
        stopped = (
            Job.objects.under_way()
            .filter(pk=self.pk, limit_hit={}, cancel_requested_at=None)
            .update(limit_hit=limit)
        )
        self.refresh_from_db()
        return bool(stopped)

    def request_cancel(self) -> bool:
        """Cancel the job if it is queued, or request that if it is running. Return False if it has ended."""
        now = timezone.now()
        cancelled = (
            Job.objects.queued()
            .filter(pk=self.pk)
            .update(
                status=Job.Status.CANCELLED,
                cancel_requested_at=now,
                ended_at=now,
                request=without_edits(self.request),
            )
        )
        requested = (
            Job.objects.under_way()
            .filter(pk=self.pk, cancel_requested_at=None)
            .update(cancel_requested_at=now)
        )
        self.refresh_from_db()
        if cancelled:
            self._log_end()
        return bool(cancelled or requested)


# The questions that runs ask people, and the answers.


class QuestionQuerySet(VisibleQuerySet["Question"]):
    """Queries for questions."""

    def waiting(self) -> QuestionQuerySet:
        """Questions without an answer whose run still waits."""
        return self.filter(answered_at=None, withdrawn_at=None)

    def withdraw(self) -> int:
        """Withdraw the questions without an answer. Return their number."""
        return self.waiting().update(withdrawn_at=timezone.now())


class Question(models.Model):
    """A question of a running job, which waits for the answer. It is answered at most once."""

    class Kind(models.TextChoices):
        HUMAN_INPUT = "human_input", _("output review")
        HUMAN_FEEDBACK = "human_feedback", _("feedback")
        TEXT_INPUT = "text_input", _("input")
        PROGRAM_INPUT = "program_input", _("input for the project's code")
        INTERRUPT = "interrupt", _("interrupt of a graph")
        TOOL_CALL = "tool_call", _("call of a tool")

    BELONGS_TO = ("job",)

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="questions")
    # Counts from 1 in each job. The runner identifies its questions by it.
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20, choices=Kind)
    prompt = models.TextField()
    # Context for the person who answers, such as the unit, its output and the choices. Redacted.
    context = models.JSONField(default=dict, blank=True)
    asked_at = models.DateTimeField(default=timezone.now)
    answer = models.TextField(blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # When its run ended without an answer.
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = VisibleManager.from_queryset(QuestionQuerySet)()

    class Meta:
        ordering = ["asked_at"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="unique_question_number")]

    def __str__(self) -> str:
        return f"{self.number}: {self.prompt[:60]}"

    def get_absolute_url(self) -> str:
        return reverse("question", args=[self.job_id, self.number])

    @property
    def is_waiting(self) -> bool:
        return self.answered_at is None and self.withdrawn_at is None

    @property
    def choices(self) -> list[str]:
        """The outcomes from which the answer chooses one; empty if any text is an answer."""
        found = self.context.get("choices")
        return [str(one) for one in found] if isinstance(found, list) else []

    def record_answer(self, text: str, person: AbstractBaseUser | None) -> bool:
        """Store the answer. Return False if the question has one already or was withdrawn."""
        updated = (
            Question.objects.waiting()
            .filter(pk=self.pk)
            .update(answer=text, answered_at=timezone.now(), answered_by=person)
        )
        self.refresh_from_db()
        return bool(updated)


# The events of jobs.


class JobEvent(models.Model):
    """One spool event of a job, redacted. The kinds are listed in viewer/host/jobs/spool.py."""

    BELONGS_TO = ("job",)

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="unique_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
