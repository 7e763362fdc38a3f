"""What people write and collect: annotations, comments and collections."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.models.jobs import Question
from viewer.models.locations import Location
from viewer.models.roles import Access, VisibleManager, VisibleQuerySet, visible_rows
from viewer.models.runs import run_uid

# What people write about runs, branches and checkpoints: names, stars, labels and notes.


class AnnotationQuerySet(VisibleQuerySet[Any]):
    """Queries for annotations and their versions."""

    def condition(self, access: Access, level: int) -> Q:
        """Those about a location on which the person has the level."""
        return Q(location_uid__in=visible_rows(Location, access, level).values("uid"))


class AnnotationTexts(models.Model):
    """What people write about one run, branch or checkpoint.

    It refers to its subject by the engine's own ids, since rows are deleted and imported again.
    """

    # Location.uid, which is the same whenever the location is added again.
    location_uid = models.UUIDField()
    # Run.key of a run or branch; empty for a checkpoint, whose run may change.
    run_key = models.CharField(max_length=200, blank=True)
    # The name of a branch.
    branch = models.CharField(max_length=300, blank=True)
    # The engine's id of a checkpoint.
    checkpoint_id = models.CharField(max_length=300, blank=True)
    name = models.CharField(max_length=200, blank=True)
    # Each label between commas, such as ``,final,tea,``.
    label_text = models.CharField(max_length=500, blank=True)
    # Markdown.
    note = models.TextField(blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(AnnotationQuerySet)()

    class Meta:
        abstract = True

    @property
    def labels(self) -> list[str]:
        return [label for label in self.label_text.split(",") if label]


class Annotation(AnnotationTexts):
    """What people wrote last about one run, branch or checkpoint."""

    is_starred = models.BooleanField(default=False)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["location_uid", "run_key", "branch", "checkpoint_id"], name="unique_annotation"
            )
        ]

    def __str__(self) -> str:
        return self.name or self.checkpoint_id or self.branch or self.run_key

    @property
    def is_empty(self) -> bool:
        return not (self.name or self.is_starred or self.label_text or self.note)

    @property
    def texts(self) -> tuple[str, str, str]:
        """What people typed: the name, the labels and the note."""
        return self.name, self.label_text, self.note


class AnnotationVersion(AnnotationTexts):
    """The name, labels and note that an annotation had before somebody changed them."""

    # When these texts were written, and ``changed_by`` whom.
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["location_uid", "run_key", "branch", "checkpoint_id"], name="annotation_versions"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name or self.note[:40]} {self.changed_at}"


# Comments on runs, checkpoints, comparisons and questions.


class CommentQuerySet(VisibleQuerySet["Comment"]):
    """Queries for comments."""

    def open_discussions(self) -> CommentQuerySet:
        """The first comments of discussions that nobody has resolved."""
        return self.filter(reply_to=None, resolved_at=None)

    def condition(self, access: Access, level: int) -> Q:
        """Those about locations, and about a question if there is one, on which the person has the level."""
        questions = visible_rows(Question, access, level).filter(pk=OuterRef("question_id"))
        locations = visible_rows(Location, access, level).values("uid")
        return (
            Q(location_uid__in=locations)
            & (Q(other_location_uid=None) | Q(other_location_uid__in=locations))
            & (Q(question=None) | Q(Exists(questions)))
        )


class Comment(models.Model):
    """What one person wrote about a run, a checkpoint, a comparison or a question, or as a reply.

    It refers to runs and checkpoints by the engine's own ids, as an Annotation does. A reply has the same ids
    as its discussion.
    """

    # The first comment of the discussion; None if this is the first one.
    reply_to = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="replies"
    )
    # Location.uid, Run.key, and the engine's id of a checkpoint, which is empty for a run.
    location_uid = models.UUIDField()
    run_key = models.CharField(max_length=200, blank=True)
    checkpoint_id = models.CharField(max_length=300, blank=True)
    # The second checkpoint of a comparison, whose location may be the same. The checkpoints are ordered by
    # their Location.uid and id, so that each pair has one discussion.
    other_location_uid = models.UUIDField(null=True, blank=True)
    other_checkpoint_id = models.CharField(max_length=300, blank=True, default="", db_default="")
    # Its job may have no run yet.
    question = models.ForeignKey(
        Question, null=True, blank=True, on_delete=models.CASCADE, related_name="comments"
    )
    # Markdown. Empty if the comment was deleted, but has replies.
    text = models.TextField(blank=True)
    # Those named in the text who could see the subject.
    mentioned = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+", blank=True)
    written_at = models.DateTimeField(default=timezone.now)
    edited_at = models.DateTimeField(null=True, blank=True)
    written_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Set on the first comment of a discussion.
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(CommentQuerySet)()

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["location_uid", "run_key"], name="comments_of_run"),
            models.Index(fields=["location_uid", "checkpoint_id"], name="comments_of_checkpoint"),
        ]

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def run_uid(self) -> UUID:
        """The public id of the run on which it was written."""
        return run_uid(self.location_uid, self.run_key)

    def is_by(self, person: Any) -> bool:
        """Whether this person wrote it, and may change it."""
        return self.written_by_id is not None and self.written_by_id == person.pk

    def resolve(self, person: Any, *, is_resolved: bool) -> bool:
        """Resolve a discussion, or reopen it. Return False if somebody else did so before."""
        at = timezone.now() if is_resolved else None
        others = Comment.objects.filter(pk=self.pk, reply_to=None, resolved_at__isnull=is_resolved)
        return bool(others.update(resolved_at=at, resolved_by=person if is_resolved else None))


# Collections of checkpoints, messages and model calls.


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
