"""What a look before a run found, without running anything."""

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
        """Looks that have come back, with or without a finding."""
        return self.filter(status__in=[PreflightCheck.Status.DONE, PreflightCheck.Status.FAILED])


class PreflightCheck(models.Model):
    """One look, made by a child in the project's own interpreter."""

    class Status(models.TextChoices):
        # Never stored: nobody has asked for it yet.
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
    # Of a new run, which has no checkpoint: what begins, and the form of the place that it writes to.
    entity = models.CharField(max_length=20, blank=True)
    provider = models.CharField(max_length=20, blank=True)
    # What it depends on: a look is shown again only while none of that has changed.
    fingerprint = models.CharField(max_length=200)
    status = models.CharField(max_length=20, choices=Status, default=Status.WAITING)
    report = models.JSONField(default=dict, blank=True)
    # Why nothing was found.
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
        """Where its child's request, spool and log stand."""
        return Path(settings.DATA_DIR) / "looks" / str(self.id)

    @property
    def is_of_new_run(self) -> bool:
        return bool(self.entity)

    @property
    def is_done(self) -> bool:
        return self.status == self.Status.DONE

    @property
    def has_ended(self) -> bool:
        return self.status in (self.Status.DONE, self.Status.FAILED)

    def note_start(self) -> None:
        """Its child is being started."""
        self._change(status=self.Status.CHECKING)

    def finish(self, report: dict[str, Any]) -> None:
        """Keep what was found. ``report`` is redacted."""
        self._change(status=self.Status.DONE, report=report, error=None, ended_at=timezone.now())

    def fail(self, error: UserMessage | None) -> None:
        """Keep why nothing was found."""
        self._change(status=self.Status.FAILED, report={}, error=error, ended_at=timezone.now())

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What the checkpoint adds to the project's own code: kind, name, detail, digest and key."""
        return list(self.report.get("effects") or [])

    @property
    def new_effects(self) -> list[dict[str, Any]]:
        """Those that nobody has accepted for the project."""
        if not self.effects:
            return []
        accepted = self.project.accepted_effects.keys()
        return [effect for effect in self.effects if effect["key"] not in accepted]

    @property
    def is_outdated(self) -> bool:
        """Whether it ended at the list of effects, and all of them are accepted by now."""
        return self.is_done and self.report.get("is_complete") is False and not self.new_effects

    def begin_again(self) -> None:
        """Forget what was found, or a failure: it is checked once more."""
        self._change(status=self.Status.WAITING, report={}, error=None, ended_at=None)

    def _change(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        PreflightCheck.objects.filter(pk=self.pk).update(**values)
