"""Preflight checks and their results."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.messages.message import UserMessage
from viewer.models.locations import Project
from viewer.models.message_field import UserMessageField
from viewer.models.runs import Checkpoint


class PreflightCheckQuerySet(models.QuerySet["PreflightCheck"]):
    """Queries for preflight checks."""

    def ended(self) -> PreflightCheckQuerySet:
        """Checks that have finished or failed."""
        return self.filter(status__in=[PreflightCheck.Status.DONE, PreflightCheck.Status.FAILED])


class PreflightCheck(models.Model):
    """One preflight check, made by a runner in the project's interpreter."""

    class Status(models.TextChoices):
        # Never stored: the check has not been requested.
        UNCHECKED = "unchecked", _("not checked")
        WAITING = "waiting", _("waiting")
        CHECKING = "checking", _("checking")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    checkpoint = models.ForeignKey(
        Checkpoint, null=True, on_delete=models.CASCADE, related_name="preflight_checks"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="preflight_checks")
    entry_point = models.CharField(max_length=300, blank=True)
    # For a new run, which has no checkpoint: its root kind, and the store kind of its write target.
    entity = models.CharField(max_length=20, blank=True)
    store_kind = models.CharField(max_length=20, blank=True)
    # The fingerprint of everything that the result depends on. A result is used while it is unchanged.
    fingerprint = models.CharField(max_length=200)
    status = models.CharField(max_length=20, choices=Status, default=Status.WAITING)
    report = models.JSONField(default=dict, blank=True)
    # Why the check failed.
    error = UserMessageField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = PreflightCheckQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["fingerprint"])]

    def __str__(self) -> str:
        return f"{self.checkpoint_id} {self.entry_point} {self.status}"

    @property
    def folder(self) -> Path:
        """The folder of its runner's request, spool and log."""
        return Path(settings.DATA_DIR) / "preflight" / str(self.id)

    @property
    def is_of_new_run(self) -> bool:
        return bool(self.entity)

    @property
    def is_done(self) -> bool:
        return self.status == self.Status.DONE

    @property
    def has_ended(self) -> bool:
        return self.status in (self.Status.DONE, self.Status.FAILED)

    def mark_started(self) -> None:
        """Record that its runner is being started."""
        self._change(status=self.Status.CHECKING)

    def finish(self, report: dict[str, Any]) -> None:
        """Record the result. ``report`` is redacted."""
        self._change(status=self.Status.DONE, report=report, error=None, ended_at=timezone.now())

    def fail(self, error: UserMessage | None) -> None:
        """Record why the check failed."""
        self._change(status=self.Status.FAILED, report={}, error=error, ended_at=timezone.now())

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What the checkpoint adds to the project's code (see viewer/jobs/preflight/checks.py)."""
        return list(self.report.get("effects") or [])

    @property
    def new_effects(self) -> list[dict[str, Any]]:
        """The effects that nobody has accepted for the project."""
        if not self.effects:
            return []
        accepted = self.project.accepted_effects.keys()
        return [effect for effect in self.effects if effect["key"] not in accepted]

    @property
    def is_outdated(self) -> bool:
        """Whether it stopped at unaccepted effects, all of which have been accepted since."""
        return self.is_done and self.report.get("is_complete") is False and not self.new_effects

    def reset(self) -> None:
        """Discard the result, so that the check runs again."""
        self._change(status=self.Status.WAITING, report={}, error=None, ended_at=None)

    def _change(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        PreflightCheck.objects.filter(pk=self.pk).update(**values)
