"""What people write about runs, branches and checkpoints: names, stars, labels and notes."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class Annotation(models.Model):
    """What people wrote about one run, branch or checkpoint.

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
    is_starred = models.BooleanField(default=False)
    # Each label between commas, such as ``,final,tea,``.
    label_text = models.CharField(max_length=500, blank=True)
    # Markdown.
    note = models.TextField(blank=True)
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["location_uid", "run_key", "branch", "checkpoint_id"], name="unique_annotation"
            )
        ]

    def __str__(self) -> str:
        return self.name or self.checkpoint_id or self.branch or self.run_key

    @property
    def labels(self) -> list[str]:
        return [label for label in self.label_text.split(",") if label]

    @property
    def is_empty(self) -> bool:
        return not (self.name or self.is_starred or self.label_text or self.note)

    @property
    def texts(self) -> tuple[str, str, str]:
        """What people typed: the name, the labels and the note."""
        return self.name, self.label_text, self.note


class AnnotationVersion(models.Model):
    """The name, labels and note that an annotation had before somebody changed them."""

    # The same columns as those by which the annotation is found.
    location_uid = models.UUIDField()
    run_key = models.CharField(max_length=200, blank=True)
    branch = models.CharField(max_length=300, blank=True)
    checkpoint_id = models.CharField(max_length=300, blank=True)
    name = models.CharField(max_length=200, blank=True)
    label_text = models.CharField(max_length=500, blank=True)
    note = models.TextField(blank=True)
    # When and by whom these texts were written.
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["location_uid", "run_key", "branch", "checkpoint_id"], name="annotation_versions"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name or self.note[:40]} {self.changed_at}"

    @property
    def labels(self) -> list[str]:
        return [label for label in self.label_text.split(",") if label]
