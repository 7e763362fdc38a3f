"""The search index: texts of checkpoints, which checkpoints have been indexed, and saved searches.

Entries remain after their checkpoint is deleted, until the index removes them in steps. Queries join the
checkpoint, so that an entry without one is never found.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location
from viewer.models.roles import VisibleManager, VisibleQuerySet
from viewer.models.runs import Checkpoint, Run

# A reference that neither deletes the row with what it refers to, nor prevents that.
_REFERENCE: dict[str, Any] = {
    "on_delete": models.DO_NOTHING,
    "db_constraint": False,
    "related_name": "+",
}


class SearchEntry(models.Model):
    """A text of a run, stored once, with the first checkpoint in which it appears."""

    class Kind(models.TextChoices):
        INPUT = "input", _("Input")
        OUTPUT = "output", _("Output")
        PROMPT = "prompt", _("Prompt")
        MESSAGE = "message", _("Message")
        TOOL = "tool", _("Tool")
        ERROR = "error", _("Error")
        STATE = "state", _("State")
        NAME = "name", _("Name")
        # Annotations: a name, labels and a note.
        NOTE = "note", _("Note")

    BELONGS_TO = ("location",)

    location = models.ForeignKey(Location, **_REFERENCE)
    run = models.ForeignKey(Run, db_index=False, **_REFERENCE)
    checkpoint = models.ForeignKey(Checkpoint, **_REFERENCE)
    # Sixteen bytes that differ for each text of a run.
    digest = models.BinaryField()
    kind = models.CharField(max_length=10, choices=Kind)
    # That of the page with the text, such as "tab=inputs".
    query_string = models.CharField(max_length=100, blank=True)
    unit = models.CharField(max_length=300, blank=True)
    agent = models.CharField(max_length=300, blank=True)
    model = models.CharField(max_length=200, blank=True)
    text = models.TextField()
    # The number of checkpoints in which it appears.
    count = models.PositiveIntegerField(default=1)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "digest"], name="unique_search_entry")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text[:50]}"

    @property
    def more(self) -> int:
        """The number of other checkpoints in which it appears."""
        return self.count - 1


class SearchFacet(models.Model):
    """A value that a location's checkpoints or entries have, such as the name of an agent."""

    BELONGS_TO = ("location",)

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=20)
    value = models.CharField(max_length=300)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["location", "name", "value"], name="unique_search_facet")
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"


class SearchedCheckpoint(models.Model):
    """A checkpoint whose texts are indexed as of this fingerprint."""

    BELONGS_TO = ("location",)

    checkpoint = models.OneToOneField(Checkpoint, primary_key=True, **_REFERENCE)
    location = models.ForeignKey(Location, **_REFERENCE)
    # The run of its entries. It may have been merged into another run since.
    run = models.ForeignKey(Run, **_REFERENCE)
    fingerprint = models.CharField(max_length=200)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    def __str__(self) -> str:
        return f"{self.pk}: {self.fingerprint}"


class SearchedRun(models.Model):
    """The state of an indexed location's run when its newest checkpoints were indexed."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="+")
    mark = models.CharField(max_length=400)

    def __str__(self) -> str:
        return f"{self.pk}: {self.mark}"


class SearchedLocation(models.Model):
    """The state of a completely indexed location, and the digest of the secrets redacted in its entries."""

    BELONGS_TO = ("location",)

    location = models.OneToOneField(
        Location, primary_key=True, on_delete=models.CASCADE, related_name="searched"
    )
    # Location.secrets_digest. Nothing is found while it differs, because entries may hold a new secret.
    secrets_digest = models.CharField(max_length=64, blank=True, default="")
    mark = models.CharField(max_length=400, blank=True, default="")

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    def __str__(self) -> str:
        return f"{self.pk}: {self.mark}"


class SavedSearch(models.Model):
    """A search that a person has given a name. ``query`` is the query of its address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_searches"
    )
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=2000)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="unique_saved_search")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"{reverse('search')}?{self.query}"
