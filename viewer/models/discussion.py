"""Comments on runs, checkpoints, comparisons and questions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from viewer.models.locations import Location
from viewer.models.questions import Question
from viewer.models.roles import Access, VisibleManager, VisibleQuerySet, visible_rows
from viewer.models.runs import run_uid


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
        changed = others.update(resolved_at=at, resolved_by=person if is_resolved else None)
        self.refresh_from_db()
        return bool(changed)
