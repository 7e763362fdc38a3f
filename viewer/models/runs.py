"""Runs, their checkpoints, the stored copies of these, and the index in which their texts are found."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Length, Now
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location
from viewer.models.roles import VisibleManager, VisibleQuerySet
from viewer.models.rows import Metered

# Which runs are listed, described or being written.

# A checkpoint that is newer than this is of a run that continues, unless it is at an end.
WRITTEN_WITHIN = timedelta(minutes=1)


class RunQuerySet(VisibleQuerySet["Run"]):
    """Queries for runs."""

    def top_level(self) -> RunQuerySet:
        """The runs that no other run called."""
        return self.filter(parent=None)

    def undescribed(self) -> RunQuerySet:
        """The runs whose newest checkpoint has changed since their status was read."""
        return self.filter(parent=None).exclude(described_head=F("head"))

    def without_inputs(self) -> RunQuerySet:
        """The runs whose inputs have not been read, newest first."""
        return self.filter(parent=None, is_described=False)

    def being_written(self) -> RunQuerySet:
        """The runs that another program seems to write now.

        Their newest checkpoint was written in the last minute, and is no end, failure or question. Runs for
        which one of our jobs runs, or has ended in that minute, are left out: the job wrote that checkpoint.
        """
        now = timezone.now()
        # Runs that are listed before their checkpoints have only one status.
        undecided = Q(head="", newest_status__in=("", "unknown")) | (
            ~Q(head="") & Q(status__in=("", "unfinished"))
        )
        recent = self.filter(undecided, last_at__range=(now - WRITTEN_WITHIN, now + WRITTEN_WITHIN))
        inactive = recent.exclude(jobs__status__in=("starting", "running"))
        return inactive.exclude(jobs__ended_at__gte=now - WRITTEN_WITHIN)


# Runs and their checkpoints.


# In a job's folder (forkline_langgraph/scratch_store.py and forkline_crewai/flow_states.py of the runners).
SCRATCH_STORE = "threads.sqlite"


class Run(Metered):
    """One start of a root entity, or one thread, with every branch that was resumed or forked from it."""

    class Status(models.TextChoices):
        WAITING = "waiting", _("waiting for an answer")
        FAILED = "failed", _("failed")
        COMPLETED = "completed", _("completed")
        # Nothing has failed or asks, but something is left to run: it was stopped, or is under way elsewhere.
        UNFINISHED = "unfinished", _("not finished")

    BELONGS_TO = ("location",)

    uid = models.UUIDField(unique=True, editable=False)
    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="runs")
    # The engine's own id of the run, such as the id of its first event.
    key = models.CharField(max_length=200)
    # The name of its root kind (RootKind.name of the engine).
    entity = models.CharField(max_length=20)
    name = models.CharField(max_length=300, blank=True)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    checkpoint_count = models.PositiveIntegerField(default=0)
    branch_count = models.PositiveIntegerField(default=0)
    lane_count = models.PositiveIntegerField(default=0)
    # The tokens of all branches. Calls that branches repeat count once.
    tokens = models.PositiveBigIntegerField(default=0)
    # Working time on all branches, without the time between a run and its resumes and forks. None if it is
    # unknown.
    seconds = models.FloatField(null=True, blank=True)
    # For open-ended kinds, whose checkpoints know only the units that have begun: the most units that one
    # of its checkpoints knows, and whether a checkpoint at the end of the run has that many.
    units_known = models.PositiveIntegerField(default=0)
    all_units_known = models.BooleanField(default=False)
    # The run that called it, and the checkpoint of that run after which it did, if any.
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="called_runs"
    )
    called_from = models.CharField(max_length=300, blank=True, default="", db_default="")
    # The engine's name for the position of a called run within its caller.
    namespace = models.CharField(max_length=500, blank=True, default="", db_default="")
    # For a run that is listed before its checkpoints: the newest checkpoint, the one at which its status
    # was read, and the fingerprint of the store when its checkpoints were listed.
    head = models.CharField(max_length=300, blank=True, default="", db_default="")
    described_head = models.CharField(max_length=300, blank=True, default="", db_default="")
    indexed_fingerprint = models.CharField(max_length=300, blank=True, default="", db_default="")
    # The cursor of that listing (``RunIndex.cursor``), since which the next one lists what is new.
    listed_state = models.TextField(blank=True, default="", db_default="")
    # The digest of the run's state when it last had all its stored copies, for indexed locations
    # (viewer/host/locations/completing.py); empty if none were made.
    copies_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    # Whether only its newest checkpoints, and the ends of its branches, are listed so far.
    is_partly_listed = models.BooleanField(default=False, db_default=False)
    # Its status; empty if its checkpoints do not say. A run of several branches is
    # completed if one of them is; else it has the status of the branch that it began on.
    status = models.CharField(max_length=20, choices=Status, blank=True, default="", db_default="")
    # The status in its newest checkpoint, whatever its branch. Empty if it is listed before its checkpoints.
    newest_status = models.CharField(max_length=20, blank=True, default="", db_default="")
    # The number of its branches by status; a branch whose end is not known has the status "".
    branch_statuses = models.JSONField(default=dict, blank=True, db_default={})
    # Whether the engine forked it.
    is_forked = models.BooleanField(default=False, db_default=False)
    # What distinguishes it from other runs of its name: [name, text], shortened; a prompt has no name.
    inputs = models.JSONField(default=list, blank=True, db_default=[])
    # Whether the inputs have been read.
    is_described = models.BooleanField(default=False, db_default=False)
    # Contradictions in the recorded parents, such as a cycle: a code, the first ids, and their count.
    lineage_faults = models.JSONField(default=list, blank=True)

    objects = VisibleManager.from_queryset(RunQuerySet)()

    class Meta:
        ordering = [F("last_at").desc(nulls_last=True), "-pk"]
        constraints = [models.UniqueConstraint(fields=["location", "key"], name="unique_run_key")]
        indexes = [
            models.Index(fields=["location", "-last_at", "-id"], name="newest_runs"),
            models.Index(fields=["location"], condition=Q(is_priced=False), name="unpriced_runs"),
            models.Index(
                fields=["location", "-last_at", "-id"],
                condition=Q(is_described=False, parent=None),
                name="runs_without_inputs",
            ),
            models.Index(fields=["-last_at", "-id"], name="newest_runs_of_all"),
            models.Index(fields=["id"], condition=Q(is_partly_listed=True), name="partly_listed_runs"),
        ]

    def __str__(self) -> str:
        return self.name or self.key

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.uid:
            self.uid = run_uid(self.location.uid, self.key)
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.uid])

    @property
    def outermost(self) -> Run:
        """The run that called it, directly or not, and that no other called; itself if none did."""
        run = self
        while run.parent is not None:
            run = run.parent
        return run

    @property
    def is_recent(self) -> bool:
        """Whether its newest checkpoint is of the last minute. Only such a run may be written now."""
        return self.last_at is not None and self.last_at >= timezone.now() - WRITTEN_WITHIN

    @property
    def is_being_written(self) -> bool:
        """Whether another program seems to write it now (``RunQuerySet.being_written``)."""
        # Most runs need no query.
        return self.is_recent and Run.objects.being_written().filter(pk=self.pk).exists()

    @property
    def listed_count(self) -> int:
        """The number of its checkpoints that are listed so far."""
        return self.checkpoints.count()

    @cached_property
    def branch_names(self) -> tuple[str, ...]:
        """Its branches, ordered by their first checkpoints. Cached on the instance."""
        began = self.checkpoints.order_by().values_list("branch").annotate(first=models.Min("row"))
        return tuple(branch for branch, _ in began.order_by("first", "branch"))


def run_uid(location_uid: uuid.UUID, key: str) -> uuid.UUID:
    """Return the public id of a run, which is the same after every import."""
    return uuid.uuid5(location_uid, key)


def escaped(name: str) -> str:
    """An id as a target or source has it: ``%`` and ``#``, which begins it, are percent-encoded."""
    return name.replace("%", "%25").replace("#", "%23")


def source_text(store: object, key: str) -> str:
    """The name by which a runner reads a checkpoint of a store: ``store.db#id``, or ``store.db#run/id``.

    The id of the run may contain ``#``, and so may the path, so that the key is escaped.
    """
    return f"{store}#{escaped(key) if '/' in key else key}"


def target_text(location: Location, run: Run, checkpoint_id: str, step: int | None) -> str:
    """The text by which commands name a checkpoint (``Checkpoint.target``)."""
    thread = "" if step is None else f"{escaped(run.key)}/"
    return f"{location.path}#{thread}{escaped(checkpoint_id)}"


def total_units(run: Run, units_done: int, units_total: int, *, is_open_ended: bool) -> int | None:
    """The number of units of a checkpoint, according to all of its run; None if it is unknown."""
    if not is_open_ended or 0 < units_done == units_total:
        return units_total
    return run.units_known if units_done < run.units_known or run.all_units_known else None


def progress_text(units_done: int, total: int | None) -> str:
    """The finished units: ``1/3``, or ``2 done`` if the total is unknown."""
    return gettext("%(done)d done") % {"done": units_done} if total is None else f"{units_done}/{total}"


# ``Checkpoint.SCRATCH`` and the id of a job. A location may have a branch or thread named ``scratch``.
_SCRATCH_KEY = r"^scratch/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/."


def is_scratch_key(key: str) -> bool:
    """Whether it is the key of a checkpoint that a fork wrote to its job's scratch store."""
    return re.match(_SCRATCH_KEY, key) is not None


def scratch_store_of(job: object) -> Path:
    """Return the path of the store that a fork writes to if it does not write to its location."""
    return Path(settings.DATA_DIR) / "jobs" / str(job) / SCRATCH_STORE


class Checkpoint(models.Model):
    """One checkpoint: the values of its row in the list, and its position in the lineage."""

    class ParentLink(models.TextChoices):
        RECORDED = "recorded", _("recorded")
        INFERRED = "inferred", _("inferred")
        MISSING = "missing", _("parent missing")
        ROOT = "root", _("start")

    class State(models.TextChoices):
        PRESENT = "present", _("present")
        PRUNED = "pruned", _("pruned at its source")
        # Its stored copy was also deleted, so it can no longer be read.
        NO_COPY = "no_copy", _("pruned, no copy")
        WRITING = "writing", _("still being written")
        BROKEN = "broken", _("broken since")

    # Values of ``ended_as`` besides those of a job's status: the run ended here; it did not; or there is no
    # source that shows it.
    COMPLETED, OPEN, UNKNOWN = "completed", "open", "unknown"
    # Begins the key of a checkpoint that a fork wrote to its job's scratch store.
    SCRATCH = "scratch/"
    # The condition of those checkpoints. The prefix first, as it is the faster test.
    IS_SCRATCH = models.Q(source_key__startswith=SCRATCH) & models.Q(source_key__regex=_SCRATCH_KEY)

    BELONGS_TO = ("location",)

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="checkpoints")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    # Its key within the location: a relative path, or a row's id.
    source_key = models.CharField(max_length=1000)
    fingerprint = models.CharField(max_length=200)
    # The engine's own ids.
    checkpoint_id = models.CharField(max_length=300)
    parent_checkpoint_id = models.CharField(max_length=300, blank=True)
    # The engine's id of the start that it belongs to. Connected checkpoints of several starts are one run.
    run_key = models.CharField(max_length=200, blank=True)
    # Its branch as people see it: a second continuation of a branch is ``main, attempt 2``.
    branch = models.CharField(max_length=300)
    # Its branch as the engine recorded it: a resume writes on under the same name.
    recorded_branch = models.CharField(max_length=300, blank=True, default="", db_default="")
    trigger = models.CharField(max_length=100, blank=True)
    # The id of the unit that the trigger was about.
    subject = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(null=True)
    engine_version = models.CharField(max_length=50, blank=True)
    # The name of its root kind, and whether that kind knows only the units that have begun.
    entity = models.CharField(max_length=20)
    is_open_ended = models.BooleanField(default=False)
    name = models.CharField(max_length=300, blank=True)
    # The number of finished units of work.
    units_done = models.PositiveIntegerField(default=0)
    # The number of units that the checkpoint itself knows; 0 if unknown.
    units_total = models.PositiveIntegerField(default=0)
    event_count = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)
    # The number of its step and of its turn, where the engine counts them.
    step = models.IntegerField(null=True)
    turn = models.PositiveIntegerField(default=0, db_default=0)
    # The units that ran in its step or are pending after it: [name, status].
    units = models.JSONField(default=list, db_default=[])
    state = models.CharField(max_length=20, choices=State, default=State.PRESENT)
    # The lineage, updated by each import.
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    parent_link = models.CharField(max_length=20, choices=ParentLink, default=ParentLink.ROOT)
    lane = models.PositiveIntegerField(default=0)
    # 0 is the oldest. The list shows the highest row first.
    row = models.PositiveIntegerField(default=0)
    # It is the last checkpoint of its branch. The graph shows the branch's name here.
    is_branch_head = models.BooleanField(default=False)
    # How the run ended here, if its engine wrote no checkpoint that says so. A job that wrote it has
    # completed, failed, or was cancelled or interrupted; or the project's source shows what follows.
    ended_as = models.CharField(max_length=20, blank=True, default="", db_default="")

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        ordering = ["-row"]
        constraints = [
            models.UniqueConstraint(fields=["location", "source_key"], name="unique_checkpoint_source_key")
        ]
        indexes = [
            models.Index(fields=["run", "row"]),
            # Pages read the branches of a run from this index alone.
            models.Index(fields=["run", "branch", "row"], name="rows_of_branches"),
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
        """The number of units, according to all checkpoints of its run; None if it is unknown."""
        return total_units(self.run, self.units_done, self.units_total, is_open_ended=self.is_open_ended)

    @property
    def progress(self) -> str:
        """The finished units: ``1/3``, or ``2 done`` if the total is unknown."""
        return progress_text(self.units_done, self.total)

    @property
    def is_pruned(self) -> bool:
        """Whether it was deleted at its source."""
        return self.state in (self.State.PRUNED, self.State.NO_COPY)

    @property
    def has_no_copy(self) -> bool:
        """Whether its stored copy was deleted after it was pruned, so that nothing can start from it."""
        return self.state == self.State.NO_COPY

    @property
    def is_scratch(self) -> bool:
        """Whether a fork wrote it to its job's scratch store instead of the location."""
        return is_scratch_key(self.source_key)

    @property
    def scratch_job(self) -> str:
        """The id of the job to whose scratch store a fork wrote it; empty if it is at the location."""
        return self.source_key.split("/", 2)[1] if self.is_scratch else ""

    @classmethod
    def scratch_prefix(cls, job: object) -> str:
        """The beginning of the keys of the checkpoints that this job wrote to its scratch store."""
        return f"{cls.SCRATCH}{job}/"

    @property
    def is_head_of_run(self) -> bool:
        """Whether the engine would continue its run from here, if its location is indexed by runs."""
        return self.run.parent_id is None and self.checkpoint_id == self.run.head

    @property
    def is_last(self) -> bool:
        """Whether nothing follows it in its thread, or in the scratch store of its fork."""
        if self.is_scratch or self.location.store_kind == Location.StoreKind.STATES:
            return self.is_branch_head and self.run.parent_id is None
        return self.is_head_of_run

    @property
    def target(self) -> str:
        """The text by which commands name it: ``LOCATION#ID``, or ``LOCATION#THREAD/ID`` if it has a step."""
        return target_text(self.location, self.run, self.checkpoint_id, self.step)

    @property
    def source(self) -> str:
        """The name by which the engine reads it: a file's path, or ``store.db#id``."""
        if self.is_scratch:
            _scratch, job, key = self.source_key.split("/", 2)
            return source_text(scratch_store_of(job), key)
        if self.location.store_kind != Location.StoreKind.JSON:
            # A key with a slash names the run as well.
            key = self.source_key if "/" in self.source_key else self.checkpoint_id
            return source_text(self.location.path, key)
        return str(Path(self.location.path) / self.source_key)


# The stored copies of checkpoints.


class BucketObject(models.Model):
    """An object in the bucket with the body of a stored copy (viewer/records/bucket.py).

    The key is random, so that it reveals nothing about the body.
    """

    class State(models.TextChoices):
        WRITTEN = "written"
        NAMED = "named"
        UNREDACTED = "unredacted"
        UNUSED = "unused"

    key = models.CharField(max_length=32, primary_key=True)
    size = models.PositiveBigIntegerField()
    # SHA-256 of the object's bytes.
    digest = models.CharField(max_length=64)
    # ``WRITTEN`` from before it is written until a copy names it. ``UNREDACTED`` if it was missing or damaged
    # when a secret became known: its body is not shown before it has been redacted.
    state = models.CharField(max_length=10, choices=State, default=State.WRITTEN)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["state"], condition=~Q(state="named"), name="unnamed_objects")]

    def __str__(self) -> str:
        return f"{self.key}: {self.size} bytes"


class StoredCopyQuerySet(VisibleQuerySet["StoredCopy"]):
    """Queries for stored copies."""

    def with_body(self) -> StoredCopyQuerySet:
        """Copies that were not deleted."""
        return self.exclude(data=b"", object=None)


def body_size(prefix: str = "") -> Combinable:
    """The size in bytes of the compressed body of a stored copy."""
    in_bucket = Coalesce(f"{prefix}object__size", 0, output_field=models.BigIntegerField())
    return Length(f"{prefix}data", output_field=models.BigIntegerField()) + in_bucket


class StoredCopy(models.Model):
    """The stored copy of a checkpoint, redacted and compressed. It remains after its source is pruned.

    If a person deleted the copy, ``data`` is empty and ``object`` is None. The other columns remain, since
    lineage and usage of the run are computed from them. They hold ids of events, tokens and times, but no
    contents.
    """

    BELONGS_TO = ("checkpoint",)

    checkpoint = models.OneToOneField(
        Checkpoint, primary_key=True, on_delete=models.CASCADE, related_name="stored_copy"
    )
    # Empty if the body is in the bucket.
    data = models.BinaryField()
    # Unique by a constraint of few rows: to add another column, SQLite would copy the whole table.
    object = models.ForeignKey(
        BucketObject,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="copies",
        db_index=False,
    )
    # Sixteen bytes for each event of the record, oldest first. Unrecorded parents are inferred from them.
    event_ids = models.BinaryField(default=bytes)
    # The model calls among the events, and the stretches in which the run worked (stores/protocol.py).
    calls = models.JSONField(default=list)
    sessions = models.JSONField(default=list, db_default=[])
    # The keyed digest of the row that it was read from. Empty for a file, whose fingerprint suffices.
    source_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    # The fingerprint of the checkpoint when it was copied, if its location is only indexed: pages show the
    # source of such a checkpoint for as long as it can be read.
    fingerprint = models.CharField(max_length=200, blank=True, default="", db_default="")

    objects = VisibleManager.from_queryset(StoredCopyQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["object"], condition=Q(object__isnull=False), name="one_copy_of_an_object"
            )
        ]

    def __str__(self) -> str:
        return f"{self.pk}: {self.object or len(self.data)}"

    @property
    def has_body(self) -> bool:
        """Whether it was not deleted."""
        return bool(self.data) or self.object_id is not None


# The search index: texts of checkpoints, and which checkpoints have been indexed.
#
# Entries remain after their checkpoint is deleted, until the index removes them in steps. Queries join the
# checkpoint, so that an entry without one is never found.

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
