"""Hosts: the machines that have the locations and projects, and run the jobs; and what web servers share."""

from __future__ import annotations

import socket
import uuid
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.urls import reverse

from viewer.models.rows import UserMessageField

# The name of the only host, unless a person names it.
DEFAULT_NAME = "default"
# How often a worker writes that its host is up. If no other machine uses the database, a lock says so, too.
# Each write wakes the worker and the open pages.
HEARTBEAT_SECONDS, ALONE_HEARTBEAT_SECONDS = 10.0, 60.0
HOST_ID_FILE = "host_id"
# The heartbeats that may be missing before a host counts as away.
MAX_MISSED = 3


def heartbeat_seconds() -> float:
    """Return the seconds between two heartbeats of a host."""
    return HEARTBEAT_SECONDS if settings.IS_DATABASE_SHARED else ALONE_HEARTBEAT_SECONDS


def instance_here() -> str:
    """Return what identifies this machine's data folder among those that share a database.

    Machines may have the same name and paths, so a file tells them apart, which a worker creates.
    """
    try:
        own = (Path(settings.DATA_DIR) / HOST_ID_FILE).read_text()
    except OSError:
        own = ""
    return f"{socket.gethostname()}:{own}:{settings.DATA_DIR}"[:400]


def _is_live() -> models.Q:
    age = timedelta(seconds=heartbeat_seconds() * MAX_MISSED)
    return models.Q(is_up=True, seen_at__gte=Now() - age)


class HostQuerySet(models.QuerySet["Host"]):
    """Queries for hosts."""

    def live(self) -> HostQuerySet:
        """Hosts with a recent heartbeat, by the database's clock."""
        return self.filter(_is_live())

    def available(self) -> HostQuerySet:
        """Hosts that take new jobs."""
        return self.live().filter(is_drained=False)

    def answering(self) -> HostQuerySet:
        """Hosts that answer requests: this machine, and those with a recent heartbeat."""
        return self.filter(_is_live() | models.Q(pk__in=Host.objects.here().values("pk")))

    def here(self) -> HostQuerySet:
        """The host of this data folder. None for a web server on a machine that is no host.

        A database that no other machine uses is of its only host.
        """
        mine = models.Q(instance=instance_here())
        if settings.IS_DATABASE_SHARED:
            return self.filter(mine).order_by("pk")[:1]
        return self.order_by(models.Case(models.When(mine, then=0), default=1), "pk")[:1]


class Pool(models.Model):
    """Hosts that see the same folders and databases, so that any of them runs the jobs there."""

    name = models.CharField(max_length=100, unique=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Host(models.Model):
    """A machine with a worker. With one host, nothing of it is shown."""

    name = models.CharField(max_length=100, unique=True)
    # Identifies the data folder that has this name (``instance_here``); empty until a worker registers.
    instance = models.CharField(max_length=400, blank=True, default="")
    # Where people find it, such as gpu-1.example.org.
    address = models.CharField(max_length=300, blank=True, default="")
    version = models.CharField(max_length=50, blank=True, default="")
    python_version = models.CharField(max_length=50, blank=True, default="")
    # The versions of the engines of its projects, such as {"crewai": ["1.15.30"]}.
    engines = models.JSONField(default=dict, blank=True)
    # Its allowed folders.
    folders = models.JSONField(default=list, blank=True)
    # Which launchers and networks work there, by name: empty, or why not
    # (viewer/host/jobs/sandbox.py).
    launchers = models.JSONField(default=dict, blank=True, db_default={})
    # How many jobs it runs at once, and its load average of a minute for each processor.
    slots = models.PositiveIntegerField(default=0)
    load = models.FloatField(null=True, blank=True)
    # The last heartbeat, by the database's clock, and whether its worker has not ended since.
    seen_at = models.DateTimeField(null=True, blank=True)
    is_up = models.BooleanField(default=False)
    # By how many seconds its clock is ahead of the database's.
    clock_difference = models.FloatField(null=True, blank=True)
    # Why no job can start there now, such as a full disk.
    fault = UserMessageField(null=True, blank=True)
    # Whether it takes no new jobs, such as before maintenance.
    is_drained = models.BooleanField(default=False)
    # The pools that its worker has joined.
    pools = models.ManyToManyField(Pool, related_name="hosts", blank=True)

    objects = HostQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"{reverse('hosts')}#{self.pk}"

    @classmethod
    def own(cls) -> Host | None:
        """Return the host of this data folder. If no other machine uses the database, there always is one."""
        found = cls.objects.here().first()
        if found is None and not settings.IS_DATABASE_SHARED:
            found, _is_new = cls.objects.get_or_create(name=DEFAULT_NAME)
        return found

    def remove_if_unused(self) -> bool:
        """Delete the host if it is away and has no location, project or unfinished job.

        Return whether it was deleted.
        """
        away = Host.objects.filter(pk=self.pk, locations=None, projects=None).exclude(_is_live())
        return bool(away.exists() and not self.jobs.unfinished().exists() and self.delete()[0])

    def change_drained(self, *, is_drained: bool) -> None:
        """Set whether it takes no new jobs. Jobs that run continue."""
        self.is_drained = is_drained
        self.save(update_fields=["is_drained"])


class HostRequest(models.Model):
    """A request to another host, until its reply was read (viewer/host/remote.py)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="requests")
    # The name of its class in viewer/host_requests.py, and the request as bytes.
    kind = models.CharField(max_length=100)
    data = models.BinaryField()
    # Whose act it is (viewer/records/audit.py). The host checks what they may ask.
    actor = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    # When the host began to answer. A request that was given up is deleted before.
    taken_at = models.DateTimeField(null=True, blank=True)
    # The reply as bytes, or the message of a refusal and the name of its class.
    reply = models.BinaryField(null=True, blank=True)
    refused_as = models.CharField(max_length=100, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.kind} to {self.host_id}"


# What the web servers of one database share: counts of attempts, and which people have a run open.


class AttemptCount(models.Model):
    """How many failed logins, links that do not work, or used codes there were in the current window.

    By a digest of what they are counted for.
    """

    key = models.CharField(max_length=64, primary_key=True)
    count = models.PositiveIntegerField()
    # By the database's clock, since those of the web servers may differ.
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.count} until {self.ends_at}"


class Presence(models.Model):
    """A person who has a run open on a web server, which renews the row until the page is closed."""

    run_uid = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # Chosen by each web server when it starts.
    server = models.UUIDField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run_uid", "user", "server"], name="unique_presence")]

    def __str__(self) -> str:
        return f"{self.user}: {self.run_uid}"
