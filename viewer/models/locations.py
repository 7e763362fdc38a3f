"""Where checkpoints stand, what could not be read there, and the project that the runs belong to."""

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

from viewer.messages.message import UserMessage
from viewer.models.message_field import UserMessageField


class Project(models.Model):
    """The folder, interpreter and entry points that a location's runs belong to."""

    folder = models.CharField(max_length=1000)
    interpreter = models.CharField(max_length=1000)
    environment_file = models.CharField(max_length=1000, blank=True)
    # "module:Class" for a flow; for a crew it is optional.
    entry_points = models.JSONField(default=list, blank=True)
    # What all its jobs of one day may use together (viewer/models/limits.py).
    limits = models.JSONField(default=dict, blank=True)
    # Of the secrets that are hidden in what its jobs have stored (viewer/jobs/execution/redact_again.py).
    secrets_mark = models.CharField(max_length=64, blank=True, default="")
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

    def change_limits(self, limits: dict[str, Any]) -> None:
        """Hold these limits from now on. What a person agreed to stays agreed to."""
        self.limits = limits
        self.save(update_fields=["limits"])

    def confirm(self, user: Any) -> None:
        """Record that a person has agreed to run programs of this project."""
        self.confirmed_at = timezone.now()
        self.confirmed_by = user
        self.save(update_fields=["confirmed_at", "confirmed_by"])


class LocationQuerySet(models.QuerySet["Location"]):
    """Queries for locations."""

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


_CHANGED_BY_OTHERS = (
    "imported_at",
    "read_error",
    "identity",
    "replaced_by",
    "refused_mark",
)


class Location(models.Model):
    """A folder or database that checkpoints stand in. It is only ever read."""

    class Provider(models.TextChoices):
        JSON = "json", _("JSON folder")
        SQLITE = "sqlite", _("SQLite file")

    # Made from the path, so that links outlive a fresh data folder.
    uid = models.UUIDField(unique=True, editable=False)
    path = models.CharField(max_length=1000, unique=True)
    # The name of the engine that wrote it (a folder of viewer/engines).
    engine = models.CharField(max_length=50, default="crewai")
    provider = models.CharField(max_length=20, choices=Provider)
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.SET_NULL, related_name="locations"
    )
    # Of the project's secrets that are hidden in what is stored (viewer/importing/known_secrets.py).
    secrets_mark = models.CharField(max_length=64, blank=True, default="")
    added_at = models.DateTimeField(default=timezone.now)
    imported_at = models.DateTimeField(null=True, blank=True)
    # Why the location itself could not be read at the last import.
    read_error = UserMessageField(null=True, blank=True)
    # Which folder or file was added (viewer/stores/safe_open.py); empty until the first import.
    identity = models.CharField(max_length=100, blank=True)
    # What is at the path instead, where that is something else by now; a person may accept it.
    replaced_by = models.CharField(max_length=100, blank=True)
    # What the store was like that exceeded the limits: not tried again until it changes.
    refused_mark = models.CharField(max_length=300, blank=True)
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

    def note_import(self, at: datetime, read_error: UserMessage | None, is_news: bool) -> None:
        """Record that it was looked at; where that brought news, open pages are to follow."""
        self.imported_at, self.read_error = at, read_error
        changes: dict[str, Any] = {
            "imported_at": at,
            "read_error": self.read_error,
            "replaced_by": self.replaced_by,
            "refused_mark": self.refused_mark,
        }
        if is_news:
            changes["revision"] = F("revision") + 1
        Location.objects.filter(pk=self.pk).update(**changes)
        if is_news:
            self.refresh_from_db(fields=["revision"])

    def pin(self, identity: str) -> None:
        """Read only this folder or file from now on."""
        self.identity, self.replaced_by = identity, ""
        Location.objects.filter(pk=self.pk).update(identity=identity, replaced_by="")

    def accept_replacement(self, identity: str) -> bool:
        """Read what a person was shown to be at the path now. False where that has changed again."""
        accepted = Location.objects.filter(pk=self.pk, replaced_by=identity).exclude(replaced_by="")
        if not accepted.update(identity=identity, replaced_by=""):
            return False
        self.identity, self.replaced_by = identity, ""
        return True

    def refresh_if_listed(self) -> bool:
        """Whether nobody has taken it off the list. What others have stored of it since is read again."""
        try:
            self.refresh_from_db(fields=_CHANGED_BY_OTHERS)
        except Location.DoesNotExist:
            return False
        return True

    @property
    def taken_branches(self) -> set[str]:
        """The names that a new branch may not have: those written, and those that jobs are about to write."""
        written = self.checkpoints.order_by().values_list("branch", flat=True).distinct()
        return {*written, *self.jobs.unfinished().order_by().values_list("branch", flat=True)}

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
        REFUSED = "refused", _("refused")
        UNAVAILABLE = "unavailable", _("not available")
        FOREIGN = "foreign", _("not a checkpoint")

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="problems")
    source_key = models.CharField(max_length=1000)
    reason = UserMessageField()
    kind = models.CharField(max_length=20, choices=Kind)
    fingerprint = models.CharField(max_length=200, blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["source_key"]
        constraints = [
            models.UniqueConstraint(fields=["location", "source_key"], name="unique_problem_source_key")
        ]

    def __str__(self) -> str:
        return f"{self.source_key}: {self.reason}"
