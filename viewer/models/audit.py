"""The audit trail: who did what, when, from where, and with what result."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class AuditEntry(models.Model):
    """One act of a person or of a share link. Triggers refuse every change (migration 0002).

    It has no foreign keys, so it outlives what it names. Nothing can be removed from it, so it holds no text
    that a person typed and no value of a checkpoint: only codes, keys of rows, paths of folders, and the
    place of a revealed value.
    """

    class ActorKind(models.TextChoices):
        USER = "user", _("User")
        SHARE = "share", _("Share link")
        TERMINAL = "terminal", _("Terminal")
        VISITOR = "visitor", _("Visitor")
        SERVER = "server", "Forkline"

    class Action(models.TextChoices):
        LOGGED_IN = "logged_in", _("logged in")
        LOGGED_OUT = "logged_out", _("logged out")
        OPENED = "opened", _("opened")
        SEARCHED = "searched", _("searched")
        EXPORTED = "exported", _("exported")
        SHARED = "shared", _("shared")
        REVOKED = "revoked", _("revoked")
        ACCEPTED = "accepted", _("accepted")
        STARTED = "started", _("started")
        ANSWERED = "answered", _("answered")
        CANCELLED = "cancelled", _("cancelled")
        ADDED = "added", _("added")
        CHANGED = "changed", _("changed")
        REMOVED = "removed", _("removed")
        PRUNED = "pruned", _("pruned")
        REVEALED = "revealed", _("revealed")

    class Kind(models.TextChoices):
        """What something was done to."""

        USER = "user", _("User")
        TEAM = "team", _("Team")
        INVITATION = "invitation", _("Invitation")
        LOCATION = "location", _("Location")
        PROJECT = "project", _("Project")
        RUN = "run", _("Run")
        CHECKPOINT = "checkpoint", _("Checkpoint")
        CALL = "call", _("Call")
        COMPARISON = "comparison", _("Comparison")
        SEARCH = "search", _("Search")
        JOB = "job", _("Job")
        SWEEP = "sweep", _("Sweep")
        QUESTION = "question", _("Question")
        COLLECTION = "collection", _("Collection")
        SHARE = "share", _("Share link")
        HOST = "host", _("Host")
        LIMITS = "limits", _("Daily limits")
        AUDIT = "audit", _("Audit trail")
        TOKEN = "token", _("API token")
        DATABASE = "database", _("Database")

    class Result(models.TextChoices):
        DONE = "done", _("done")
        NOT_DONE = "not_done", _("not done")

    at = models.DateTimeField(db_default=Now())
    actor_kind = models.CharField(max_length=20, choices=ActorKind)
    # The name of a user or of the account at the terminal, or the key of a share link.
    actor = models.CharField(max_length=150, blank=True)
    # The key of the API token with which a program acted for this user.
    token = models.PositiveBigIntegerField(null=True, blank=True)
    # The address of the client; empty at the terminal.
    address = models.CharField(max_length=50, blank=True)
    action = models.CharField(max_length=20, choices=Action)
    kind = models.CharField(max_length=20, choices=Kind)
    # The key of a row, as addresses have it: a UUID or a number.
    key = models.CharField(max_length=200, blank=True)
    # Such as the path of a location, the kind of a job, or the names of the filters of a search.
    detail = models.CharField(max_length=300, blank=True)
    result = models.CharField(max_length=20, choices=Result, default=Result.DONE)

    class Meta:
        indexes = [
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["key", "-id"], name="audit_by_key"),
            models.Index(fields=["at"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.kind} {self.key}"


class AuditRetention(models.Model):
    """The time before which entries may be deleted, in the transaction that deletes them.

    No committed state has a row (viewer/records/audit.py). A time of the last day allows nothing.
    """

    before = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.before)
