"""The effects of checkpoints that people have accepted for a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Project


class AcceptedEffectQuerySet(models.QuerySet["AcceptedEffect"]):
    """Queries for accepted effects."""

    def keys(self) -> set[str]:
        """The keys by which the runner compares effects (forkline_runner/loaded_code/effects.py)."""
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
