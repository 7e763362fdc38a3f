"""Locations of checkpoints, their problems, and the projects that their runs belong to."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, functions
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.messages.message import UserMessage
from viewer.models.hosts import Host, HostQuerySet, Pool
from viewer.models.roles import (
    Access,
    Level,
    VisibleManager,
    VisibleQuerySet,
    roles_of,
    unrestricted,
    visible_rows,
)
from viewer.models.rows import UserMessageField, uuid_of


class ProjectQuerySet(VisibleQuerySet["Project"]):
    """Queries for projects."""

    def condition(self, access: Access, level: int) -> Q:
        """Those of a location on which the person has the level. An admin has it on all of them."""
        visible = visible_rows(Location, access, level)
        found = Q(Exists(visible.filter(project=OuterRef("pk"))))
        if level >= Level.ADMIN:
            others = Location._base_manager.exclude(pk__in=visible.values("pk"))
            found &= ~Q(Exists(others.filter(project=OuterRef("pk"))))
        return found

    def here(self) -> ProjectQuerySet:
        """Projects of this machine."""
        return self.filter(host__in=Host.objects.here())


class Project(models.Model):
    """The folder, interpreter and entry points that a location's runs belong to."""

    # Where it is; this machine unless said otherwise.
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="projects")
    folder = models.CharField(max_length=1000)
    interpreter = models.CharField(max_length=1000)
    environment_file = models.CharField(max_length=1000, blank=True)
    # The names of entry points, such as "module:Name".
    entry_points = models.JSONField(default=list, blank=True)
    # The daily limits of all its jobs together (viewer/models/jobs.py).
    limits = models.JSONField(default=dict, blank=True)
    # What happens when its runs call a tool (viewer/engines/recorded_calls.py), by the tool's name.
    tool_choices = models.JSONField(default=dict, blank=True, db_default={})
    # The variables of its environment file whose keys no run gets (viewer/host/jobs/kept_keys.py), each with
    # the only address to which its key goes.
    kept_keys = models.JSONField(default=dict, blank=True, db_default={})
    # How its runs are isolated (viewer/records/isolation.py); empty for plain processes.
    isolation = models.JSONField(default=dict, blank=True, db_default={})
    # Identifies the secrets and rules with which its jobs are redacted (viewer/host/project_secrets.py).
    secrets_digest = models.CharField(max_length=64, blank=True, default="")
    confirmed_at = models.DateTimeField(null=True, blank=True)
    confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(ProjectQuerySet)()

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.host_id = self.host_id or own_host_key()
        super().save(*args, **kwargs)

    @property
    def name(self) -> str:
        return Path(self.folder).name

    @property
    def is_confirmed(self) -> bool:
        return self.confirmed_at is not None

    @property
    def away_host(self) -> Host | None:
        """Its host if that does not answer."""
        return None if Host.objects.answering().filter(pk=self.host_id).exists() else self.host

    @property
    def code(self) -> tuple[str, str, list[str]]:
        """What a person confirms: the interpreter, the environment file and the entry points."""
        return self.interpreter, self.environment_file, self.entry_points

    def change(self, *, interpreter: str, environment_file: str, entry_points: list[str]) -> None:
        """Set and save these values. If one differs, the project has to be confirmed again."""
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

    def keep_tool_choices(self, choices: Mapping[str, str]) -> None:
        """Use these choices from now on. The project stays confirmed."""
        if choices:
            self.tool_choices = {**self.tool_choices, **choices}
            self.save(update_fields=["tool_choices"])

    def change_limits(self, limits: dict[str, Any]) -> None:
        """Set and save the daily limits. The project stays confirmed."""
        self.limits = limits
        self.save(update_fields=["limits"])

    def change_kept_keys(self, kept: Mapping[str, str]) -> None:
        """Set and save the keys that no run gets, each with its address. The project stays confirmed."""
        self.kept_keys = dict(kept)
        self.save(update_fields=["kept_keys"])

    def change_isolation(self, isolation: dict[str, Any]) -> None:
        """Set and save how runs are isolated. The project stays confirmed."""
        self.isolation = isolation
        self.save(update_fields=["isolation"])

    def confirm(self, user: Any) -> None:
        """Record that a person has permitted running code of this project."""
        self.confirmed_at = timezone.now()
        self.confirmed_by = user
        self.save(update_fields=["confirmed_at", "confirmed_by"])


def own_host_key() -> Any:
    """Return the primary key of this machine's host; None if it is no host."""
    own = Host.own()
    return own.pk if own else None


class LocationQuerySet(VisibleQuerySet["Location"]):
    """Queries for locations."""

    def condition(self, access: Access, level: int) -> Q:
        """Those on which the person has the level. The conditions of all other rows follow from it."""
        if not access.user:
            return Q(pk__in=[location for location, own in access.at.items() if own >= level])
        return Q(
            pk__in=roles_of(access.user).filter(level__gte=level, location__isnull=False).values("location")
        )

    def here(self) -> LocationQuerySet:
        """Locations that this machine reads."""
        return self.filter(host__in=Host.objects.here())

    def runnable_here(self) -> LocationQuerySet:
        """Locations whose jobs this machine may start."""
        return self.runnable_by(Host.objects.here())

    def runnable_by(self, hosts: HostQuerySet | Collection[Host]) -> LocationQuerySet:
        """Locations whose jobs a host may start: its own, and those of its pools that it recognised."""
        seen = PoolMember.objects.filter(host__in=hosts, refusal__isnull=True)
        seen = seen.filter(location__pool__hosts__in=hosts)
        return self.filter(models.Q(host__in=hosts) | models.Q(pk__in=seen.values("location")))

    def matching(self, text: str) -> LocationQuerySet:
        """The location with this UUID, else those at this path, else those with this text in their path."""
        if uid := uuid_of(text):
            return self.filter(uid=uid)
        same = self.filter(path=text)
        return same if same.exists() else self.filter(path__icontains=text)

    def with_counts(self) -> LocationQuerySet:
        """Annotate each location with ``run_count``, ``checkpoint_count`` and ``problem_count``."""
        problems = Problem.objects.filter(location=models.OuterRef("pk")).order_by().values("location")
        return self.annotate(
            run_count=models.Count("runs", filter=models.Q(runs__parent=None)),
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
    "refused_fingerprint",
    "import_state",
)


class Location(models.Model):
    """A folder, SQLite file, PostgreSQL database or checkpoint saver that a person has added.

    Forkline only reads it.
    """

    class StoreKind(models.TextChoices):
        JSON = "json", _("JSON folder")
        SQLITE = "sqlite", _("SQLite file")
        # States that an engine stores without checkpoints.
        STATES = "states", _("SQLite file of states")
        POSTGRESQL = "postgresql", _("PostgreSQL database")
        # A checkpoint saver, which the code of its project opens.
        SAVER = "saver", _("checkpoint saver")

    class ImportState(models.TextChoices):
        REQUESTED = "requested", _("being imported")
        CANCELLED = "cancelled", _("cancelled")

    # Kinds whose path leads to no folder or file.
    WITHOUT_PATH = (StoreKind.POSTGRESQL, StoreKind.SAVER)

    # Derived from the path, so that links stay valid with a new data folder.
    uid = models.UUIDField(unique=True, editable=False)
    # The machine that reads it; this one unless said otherwise.
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="locations")
    # The hosts that may run its jobs as well, and read it if this one is away.
    pool = models.ForeignKey(Pool, null=True, blank=True, on_delete=models.SET_NULL, related_name="locations")
    # ``postgresql:NAME`` for a database, whose connection is only in the settings of its host, and
    # ``saver:FOLDER:module:name`` for a saver.
    path = models.CharField(max_length=1000)
    # The name of the engine that wrote it (a folder of viewer/engines).
    engine = models.CharField(max_length=50, default="crewai")
    store_kind = models.CharField(max_length=20, choices=StoreKind)
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.SET_NULL, related_name="locations"
    )
    # Identifies the secrets and rules with which what is stored is redacted (viewer/host/project_secrets.py).
    secrets_digest = models.CharField(max_length=64, blank=True, default="")
    added_at = models.DateTimeField(default=timezone.now)
    imported_at = models.DateTimeField(null=True, blank=True)
    # Why the last import could not read the location itself.
    read_error = UserMessageField(null=True, blank=True)
    # The device and inode that were added (viewer/stores/safe_open.py); empty until the first import.
    identity = models.CharField(max_length=100, blank=True)
    # The device and inode at the path now, if they differ. A person may accept them.
    replaced_by = models.CharField(max_length=100, blank=True)
    # The fingerprint of the store when it exceeded the limits. It is not read again until it changes.
    refused_fingerprint = models.CharField(max_length=300, blank=True)
    # The fingerprint of an indexed store whose runs are all listed as it has them.
    listed_fingerprint = models.CharField(max_length=300, blank=True, default="")
    # Identifies the prices with which the costs of its runs were computed (viewer/records/prices.py).
    price_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    # Incremented by each import that changed something, so that open pages refresh.
    revision = models.PositiveIntegerField(default=0)

    # For a long import: whether it is requested to continue, the number of stored checkpoints, and the total,
    # which is 0 until it is known.
    import_state = models.CharField(max_length=20, choices=ImportState, blank=True, default="", db_default="")
    import_done = models.PositiveIntegerField(default=0, db_default=0)
    import_total = models.PositiveIntegerField(default=0, db_default=0)

    objects = VisibleManager.from_queryset(LocationQuerySet)()

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["host", "path"], name="unique_path_of_host")]

    def __str__(self) -> str:
        return self.path

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.host_id = self.host_id or own_host_key()
        if not self.uid:
            self.uid = uuid.uuid5(uuid.NAMESPACE_URL, f"file://{self.path}")
            if Location.objects.filter(uid=self.uid).exists():
                # The location that was at this path before has been moved.
                self.uid = uuid.uuid4()
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("location", args=[self.uid])

    def record_import(self, at: datetime, read_error: UserMessage | None, has_changed: bool) -> None:
        """Record an import, with its time if it read the location, else its error.

        Open pages refresh if something ``has_changed``.
        """
        self.imported_at = self.imported_at if read_error else at
        self.read_error = read_error
        changes: dict[str, Any] = {
            "imported_at": self.imported_at,
            "read_error": self.read_error,
            "replaced_by": self.replaced_by,
            "refused_fingerprint": self.refused_fingerprint,
        }
        if has_changed:
            changes["revision"] = F("revision") + 1
        Location.objects.filter(pk=self.pk).update(**changes)
        if has_changed:
            self.refresh_from_db(fields=["revision"])

    def mark_changed(self) -> None:
        """Make open pages and the search index refresh."""
        Location.objects.filter(pk=self.pk).update(revision=F("revision") + 1)

    def request_import(self) -> None:
        """Request a background import of the rest of the location."""
        self._change_import(import_state=self.ImportState.REQUESTED)

    def cancel_import(self) -> None:
        """End the import. Its stored checkpoints remain, and no others follow until a person continues it."""
        if self.import_state == self.ImportState.REQUESTED:
            self._change_import(import_state=self.ImportState.CANCELLED)

    def end_import(self) -> None:
        """Record that nothing is left to import."""
        if self.import_state:
            self._change_import(import_state="", import_done=0, import_total=0)

    def record_progress(self, done: int, total: int) -> bool:
        """Record how many checkpoints of an import are stored. Return False if a person cancelled it."""
        rows = Location.objects.filter(pk=self.pk)
        # Open pages refresh.
        rows.update(import_done=done, import_total=total, revision=F("revision") + 1)
        return rows.filter(import_state=self.ImportState.REQUESTED).exists()

    def _change_import(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        Location.objects.filter(pk=self.pk).update(**values, revision=F("revision") + 1)

    def pin(self, identity: str) -> None:
        """Record the device and inode of the location."""
        self.identity, self.replaced_by = identity, ""
        Location.objects.filter(pk=self.pk).update(identity=identity, replaced_by="")

    def move(self, path: str, identity: str) -> None:
        """Read it at another path from now on. Its links stay."""
        self.path, self.identity, self.replaced_by = path, identity, ""
        changes = {"path": path, "identity": identity, "replaced_by": "", "refused_fingerprint": ""}
        Location.objects.filter(pk=self.pk).update(**changes)

    def accept_replacement(self, identity: str) -> bool:
        """Pin the replacement that a person was shown. Return False if it has changed since."""
        accepted = Location.objects.filter(pk=self.pk, replaced_by=identity).exclude(replaced_by="")
        if not accepted.update(identity=identity, replaced_by=""):
            return False
        self.identity, self.replaced_by = identity, ""
        return True

    def refresh_if_exists(self) -> bool:
        """Reload what other processes may have stored. Return False if the location was removed."""
        try:
            self.refresh_from_db(fields=_CHANGED_BY_OTHERS)
        except Location.DoesNotExist:
            return False
        return True

    def ask_source_again(self) -> None:
        """Have the ends of its runs looked for in the source of its new project."""
        self.checkpoints.filter(ended_as="unknown").update(ended_as="")

    @property
    def taken_branches(self) -> set[str]:
        """The branch names in use: those of checkpoints, and those of unfinished jobs."""
        written = self.checkpoints.order_by().values_list("branch", "recorded_branch").distinct()
        # Also by jobs from checkpoints that the sender of the request does not see.
        with unrestricted():
            unfinished = self.jobs.unfinished().order_by().values_list("branch", flat=True)
        return {*(name for names in written for name in names if name), *unfinished}

    @property
    def with_same_project(self) -> LocationQuerySet:
        """The locations of its project, which are read by one host; itself if it has none."""
        if self.project_id is None:
            return Location.objects.filter(pk=self.pk)
        return Location.objects.filter(project=self.project_id)

    @property
    def is_observed_here(self) -> bool:
        """Whether this machine observes it. Another host of its pool may only run its jobs."""
        return self.pool_id is None or own_host_key() == self.host_id

    @property
    def import_context(self) -> tuple[str, ...]:
        """The values besides its contents on which the imported rows depend."""
        return self.identity, self.engine, self.secrets_digest

    @property
    def is_local(self) -> bool:
        """Whether it is a folder or file on this machine."""
        return self.store_kind not in self.WITHOUT_PATH

    @property
    def takes_runs(self) -> bool:
        """Whether runs can write checkpoints to it."""
        return self.store_kind not in (self.StoreKind.STATES, self.StoreKind.SAVER)

    @property
    def is_only_read(self) -> bool:
        """Whether no run continues a thread there, and no fork is published to it."""
        return self.store_kind == self.StoreKind.SAVER

    @property
    def name(self) -> str:
        if self.store_kind == self.StoreKind.POSTGRESQL:
            return self.path.partition(":")[2]
        if self.store_kind == self.StoreKind.SAVER:
            return ":".join(self.path.rsplit(":", 2)[1:])
        return Path(self.path).name

    @property
    def parent_name(self) -> str:
        if self.store_kind == self.StoreKind.SAVER:
            return Path(self.path.rsplit(":", 2)[0]).name
        return "PostgreSQL" if self.store_kind == self.StoreKind.POSTGRESQL else Path(self.path).parent.name


class PoolMember(models.Model):
    """What a host of a pool has at the path of a location (viewer/host/jobs/pools.py)."""

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="members")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="+")
    # As ``Location.identity``, on this machine.
    identity = models.CharField(max_length=100, blank=True)
    # Digests of the server's address, and of the project's source and secrets.
    server_digest = models.CharField(max_length=64, blank=True)
    project_digest = models.CharField(max_length=64, blank=True)
    # Why it is not certain that it is the same location. The host starts nothing there then.
    refusal = UserMessageField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["location", "host"], name="unique_pool_member")]

    def __str__(self) -> str:
        return f"{self.host} at {self.location}"


class Problem(models.Model):
    """A file or row of a location that cannot be imported, with the reason."""

    class Kind(models.TextChoices):
        WRITING = "writing", _("still being written")
        BROKEN = "broken", _("broken")
        REFUSED = "refused", _("refused")
        UNAVAILABLE = "unavailable", _("not available")
        FOREIGN = "foreign", _("not a checkpoint")

    BELONGS_TO = ("location",)

    location = models.ForeignKey(Location, on_delete=models.CASCADE, related_name="problems")
    source_key = models.CharField(max_length=1000)
    reason = UserMessageField()
    kind = models.CharField(max_length=20, choices=Kind)
    fingerprint = models.CharField(max_length=200, blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        ordering = ["source_key"]
        constraints = [
            models.UniqueConstraint(fields=["location", "source_key"], name="unique_problem_source_key")
        ]

    def __str__(self) -> str:
        return f"{self.source_key}: {self.reason}"
