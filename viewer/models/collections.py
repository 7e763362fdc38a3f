"""Collections of checkpoints, messages and model calls."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location
from viewer.models.roles import Access, VisibleManager, VisibleQuerySet, visible_rows
from viewer.models.runs import run_uid


class CollectionQuerySet(VisibleQuerySet["Collection"]):
    """Queries for collections."""

    def condition(self, access: Access, level: int) -> Q:
        """The person's own, and those with an item on which the person has the level."""
        items = visible_rows(CollectionItem, access, level).filter(collection=OuterRef("pk"))
        return Q(Exists(items)) | Q(made_by=access.user)


class CollectionItemQuerySet(VisibleQuerySet["CollectionItem"]):
    """Queries for items of collections."""

    def condition(self, access: Access, level: int) -> Q:
        """Those of a location on which the person has the level, and their own.

        Their own may be imported. Whether it is shown must not depend on whether such a location is here.
        """
        here = Q(location_uid__in=visible_rows(Location, access, level).values("uid"))
        return here | Q(made_by=access.user)


class Collection(models.Model):
    """Checkpoints, messages and calls that people have collected."""

    # Unique, which is checked when it is written: two names may be alike once secrets in them are redacted.
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(CollectionQuerySet)()

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("collection", args=[self.pk])


class CollectionItem(models.Model):
    """A checkpoint, a message or a call in a collection, with what people wrote about it.

    It refers to its subject by the engine's own ids, as an Annotation does. The subject may be on another
    installation, if the item was imported.
    """

    class Kind(models.TextChoices):
        CHECKPOINT = "checkpoint", _("Checkpoint")
        MESSAGE = "message", _("Message")
        CALL = "call", _("Model call")

    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="items")
    kind = models.CharField(max_length=20, choices=Kind)
    # Location.uid, Run.key, and the engine's id of the checkpoint.
    location_uid = models.UUIDField()
    run_key = models.CharField(max_length=200)
    checkpoint_id = models.CharField(max_length=300)
    # The entry of the state and the position of a message, such as ``messages:3``, or the name of a call.
    part = models.CharField(max_length=300, blank=True)
    # What it was called when it was added.
    title = models.CharField(max_length=300, blank=True)
    # Markdown.
    note = models.TextField(blank=True)
    # The answer that is right.
    expected = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(CollectionItemQuerySet)()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["collection", "kind", "location_uid", "run_key", "checkpoint_id", "part"],
                name="unique_collection_item",
            )
        ]
        indexes = [models.Index(fields=["location_uid"], name="items_of_location")]

    def __str__(self) -> str:
        return self.title or self.checkpoint_id

    def get_absolute_url(self) -> str:
        return reverse("collection-item", args=[self.pk])

    @property
    def run_uid(self) -> UUID:
        """The public id of its run."""
        return run_uid(self.location_uid, self.run_key)

    @property
    def address(self) -> str:
        """The address of its checkpoint, which is the same after every import of the location."""
        return f"{reverse('run', args=[self.run_uid])}?at={quote(self.checkpoint_id, safe='')}"

    @property
    def ids(self) -> tuple[str, UUID, str, str, str]:
        """What no other item of the collection has."""
        return self.kind, self.location_uid, self.run_key, self.checkpoint_id, self.part
