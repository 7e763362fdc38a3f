"""Preflight checks, their results, and the effects that people have accepted for a project."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.messages.message import UserMessage
from viewer.models.locations import Project
from viewer.models.roles import VisibleManager, VisibleQuerySet
from viewer.models.rows import UserMessageField
from viewer.models.runs import Checkpoint

# The effects of checkpoints that people have accepted for a project.


class AcceptedEffectQuerySet(models.QuerySet["AcceptedEffect"]):
    """Queries for accepted effects."""

    def keys(self) -> set[str]:
        """The keys by which the runner compares effects (forkline_runner/effects.py)."""
        return set(self.filter(is_bound=True).values_list("key", flat=True))


class AcceptedEffect(models.Model):
    """An effect that a person accepted for all runs of a project.

    Changed content is another effect, and so is the same value in another field or tool.
    """

    class Kind(models.TextChoices):
        MODULE = "module", _("Import")
        COMMAND = "command", _("Command")
        FILE = "file", _("File")
        HOST = "host", _("Host")
        KEY = "key", _("Key")
        VALUE = "value", _("Value")

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="accepted_effects")
    # A hash of everything that was accepted. The stored name is redacted and shortened.
    key = models.CharField(max_length=64)
    kind = models.CharField(max_length=20, choices=Kind)
    name = models.CharField(max_length=300)
    # SHA-256 of the accepted content; empty if the name identifies it.
    digest = models.CharField(max_length=64, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    # What gets the value, and in which field.
    tool = models.CharField(max_length=300, blank=True, db_default="")
    field = models.CharField(max_length=300, blank=True, db_default="")
    # Whether the key contains the tool, the field and the complete value. Older ones do not count.
    is_bound = models.BooleanField(default=True, db_default=False)
    accepted_at = models.DateTimeField(default=timezone.now)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = AcceptedEffectQuerySet.as_manager()

    class Meta:
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="unique_accepted_effect")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def accept_effects(project: Project, effects: Iterable[Mapping[str, Any]], user: Any) -> None:
    """Record that a person accepts these effects, as a preflight check reported them, for the project."""
    AcceptedEffect.objects.bulk_create(
        [
            AcceptedEffect(
                project=project,
                key=str(effect["key"])[:64],
                kind=str(effect["kind"])[:20],
                name=str(effect["name"])[:300],
                digest=str(effect.get("digest") or "")[:64],
                detail=str(effect.get("detail") or "")[:300],
                tool=str(effect.get("tool") or "")[:300],
                field=str(effect.get("field") or "")[:300],
                accepted_by=user,
            )
            for effect in effects
        ],
        update_conflicts=True,
        unique_fields=["project", "key"],
        update_fields=["is_bound", "accepted_at", "accepted_by"],
    )


# Preflight checks and their results.


class PreflightCheckQuerySet(VisibleQuerySet["PreflightCheck"]):
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

    BELONGS_TO = ("checkpoint", "project")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    checkpoint = models.ForeignKey(
        Checkpoint, null=True, on_delete=models.CASCADE, related_name="preflight_checks"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="preflight_checks")
    entry_point = models.CharField(max_length=300, blank=True)
    # For a new run, which has no checkpoint: its root kind, and the store kind of its write target.
    entity = models.CharField(max_length=20, blank=True)
    store_kind = models.CharField(max_length=20, blank=True)
    # The recorded commit whose code it checks; empty for the code in the project's folder.
    commit = models.CharField(max_length=64, blank=True, db_default="")
    # The fingerprint of everything that the result depends on. A result is used while it is unchanged.
    fingerprint = models.CharField(max_length=200)
    status = models.CharField(max_length=20, choices=Status, default=Status.WAITING)
    report = models.JSONField(default=dict, blank=True)
    # Why the check failed.
    error = UserMessageField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = VisibleManager.from_queryset(PreflightCheckQuerySet)()

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
        """What the checkpoint adds to the project's code (see viewer/engines/runner_protocol.py)."""
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
