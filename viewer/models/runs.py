"""What was read of a location: runs, their checkpoints, and the stored copies."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.db import models
from django.db.models import F
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location


class Run(models.Model):
    """One kickoff, with every branch that was continued or forked from it."""

    uid = models.UUIDField(unique=True, editable=False)
    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="runs")
    # What the engine calls it: the kickoff's event id, or the root entity's id.
    key = models.CharField(max_length=200)
    entity = models.CharField(max_length=20)
    name = models.CharField(max_length=300, blank=True)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    checkpoint_count = models.PositiveIntegerField(default=0)
    branch_count = models.PositiveIntegerField(default=0)
    lane_count = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    # As many methods as one of its checkpoints knows, if it is a flow's, and whether a flow of it has
    # finished with so many: each checkpoint knows only those that had begun.
    methods_known = models.PositiveIntegerField(default=0)
    methods_are_all = models.BooleanField(default=False)
    # Faults of the lineage, such as a cycle: each a code, the first ids, and their count.
    lineage_faults = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = [F("last_at").desc(nulls_last=True), "-pk"]
        constraints = [models.UniqueConstraint(fields=["location", "key"], name="unique_run_key")]

    def __str__(self) -> str:
        return self.name or self.key

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.uid:
            self.uid = run_uid(self.location.uid, self.key)
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.uid])

    @cached_property
    def branch_names(self) -> tuple[str, ...]:
        """Its branches in the order in which they began, as they were when this was first asked."""
        began = self.checkpoints.order_by().values_list("branch").annotate(first=models.Min("row"))
        return tuple(branch for branch, _ in began.order_by("first", "branch"))


def run_uid(location_uid: uuid.UUID, key: str) -> uuid.UUID:
    """The address of a run, the same after every import."""
    return uuid.uuid5(location_uid, key)


class Checkpoint(models.Model):
    """One checkpoint as it was read: what its row in the list shows, and where it hangs."""

    class ParentLink(models.TextChoices):
        RECORDED = "recorded", _("recorded")
        INFERRED = "inferred", _("inferred")
        MISSING = "missing", _("parent missing")
        ROOT = "root", _("start")

    class State(models.TextChoices):
        PRESENT = "present", _("present")
        PRUNED = "pruned", _("pruned at the source, kept here")
        WRITING = "writing", _("still being written")
        BROKEN = "broken", _("broken since")

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="checkpoints")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    # Where it stands in its location: a relative path, or a row's id.
    source_key = models.CharField(max_length=1000)
    fingerprint = models.CharField(max_length=200)
    # As the engine writes them.
    checkpoint_id = models.CharField(max_length=300)
    parent_checkpoint_id = models.CharField(max_length=300, blank=True)
    # What the engine tells one kickoff from another by; connected checkpoints of several are one run.
    run_key = models.CharField(max_length=200, blank=True)
    branch = models.CharField(max_length=300)
    trigger = models.CharField(max_length=100, blank=True)
    # The unit that the trigger was about.
    subject = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(null=True)
    engine_version = models.CharField(max_length=50, blank=True)
    entity = models.CharField(max_length=20)
    name = models.CharField(max_length=300, blank=True)
    tasks_done = models.PositiveIntegerField(default=0)
    # As the checkpoint itself tells; 0 where it does not.
    tasks_total = models.PositiveIntegerField(default=0)
    event_count = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)
    state = models.CharField(max_length=20, choices=State, default=State.PRESENT)
    # The lineage, settled at import.
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    parent_link = models.CharField(max_length=20, choices=ParentLink, default=ParentLink.ROOT)
    lane = models.PositiveIntegerField(default=0)
    # 0 is the oldest; the list shows the highest on top.
    row = models.PositiveIntegerField(default=0)
    # Nothing continues its branch: the branch's name stands here.
    is_branch_head = models.BooleanField(default=False)

    class Meta:
        ordering = ["-row"]
        constraints = [
            models.UniqueConstraint(fields=["location", "source_key"], name="unique_checkpoint_source_key")
        ]
        indexes = [
            models.Index(fields=["run", "row"]),
            models.Index(fields=["location", "checkpoint_id"]),
            models.Index(fields=["location", "parent_checkpoint_id"]),
            models.Index(fields=["location", "run_key"]),
        ]

    def __str__(self) -> str:
        return self.checkpoint_id

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.run.uid], query={"at": self.checkpoint_id})

    @property
    def total(self) -> int | None:
        """How many units there are, as far as its whole run knows; None where nothing says so."""
        if self.entity != "flow" or 0 < self.tasks_done == self.tasks_total:
            return self.tasks_total
        if self.tasks_done < self.run.methods_known or self.run.methods_are_all:
            return self.run.methods_known
        return None

    @property
    def progress(self) -> str:
        """What is done: ``1/3``, or ``2 done`` where nothing says of how many."""
        total = self.total
        if total is None:
            return gettext("%(done)d done") % {"done": self.tasks_done}
        return f"{self.tasks_done}/{total}"

    @property
    def source(self) -> str:
        """Where the engine finds it: a file's path, or ``store.db#id``."""
        if self.location.provider == Location.Provider.SQLITE:
            return f"{self.location.path}#{self.checkpoint_id}"
        return str(Path(self.location.path) / self.source_key)


class CheckpointBody(models.Model):
    """The stored copy of a checkpoint, redacted and compressed. It outlives the source."""

    checkpoint = models.OneToOneField(
        Checkpoint, primary_key=True, on_delete=models.CASCADE, related_name="body"
    )
    data = models.BinaryField()
    # Sixteen bytes for each event of the record, oldest first: what an unrecorded parent is inferred from.
    event_ids = models.BinaryField(default=bytes)
    # The model calls among them, as [position in the record, tokens].
    calls = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.pk}: {len(self.data)} bytes"
