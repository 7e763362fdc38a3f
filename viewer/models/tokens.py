"""Invitations, share links, API tokens, and the keys of what programs start."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from viewer.models.locations import Location
from viewer.models.roles import Access, Level, Team, VisibleManager, VisibleQuerySet, access_of, visible_rows


class InvitationState(StrEnum):
    """Whether an invitation works, or why not."""

    WORKS = "works"
    USED = "used"
    REVOKED = "revoked"
    EXPIRED = "expired"
    # The person who made it no longer has the right to.
    VOID = "void"


class InvitationQuerySet(VisibleQuerySet["Invitation"]):
    """Queries for invitations."""

    def condition(self, access: Access, level: int) -> Q:
        """Those to locations on which the person has the level. Only an admin of all invites to teams."""
        return Q(team=None, location__in=visible_rows(Location, access, level).values("pk"))


class Invitation(models.Model):
    """What a new person gets: a role on a location or on all, membership in a team, or both.

    Its token is in the link only: the row has a hash of it.
    """

    # SHA-256 of the token, which has 256 random bits.
    token_hash = models.CharField(max_length=64, unique=True)
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.CASCADE, related_name="invitations"
    )
    level = models.PositiveSmallIntegerField(choices=Level, null=True, blank=True)
    # Without one, the role is on all locations.
    location = models.ForeignKey(
        Location, null=True, blank=True, on_delete=models.CASCADE, related_name="invitations"
    )
    # None if it was made at the terminal. An invitation ends with the account of its maker.
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="invitations"
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = VisibleManager.from_queryset(InvitationQuerySet)()

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(level__isnull=False) | Q(team__isnull=False, location=None),
                name="invitation_to_team_or_role",
            )
        ]

    def __str__(self) -> str:
        role = ""
        if self.level:
            where = self.location.path if self.location else _("all locations")
            role = _("%(level)s on %(where)s") % {"level": self.get_level_display(), "where": where}
        member = _("member of %(team)s") % {"team": self.team} if self.team else ""
        return ", ".join(filter(None, [role, member]))

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()


# Tokens with which programs use the HTTP interface as a person, and the keys of what they start.


class ApiToken(models.Model):
    """A token of a person. Its text is shown once: the row has a hash of it.

    It may do what its person may at that moment, at most what its own role allows, and only at its own
    locations unless it ``is_everywhere``. A location that was removed leaves the others.
    """

    # SHA-256 of the token, which has 256 random bits.
    token_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    # What its person calls it.
    name = models.CharField(max_length=100)
    level = models.PositiveSmallIntegerField(choices=Level)
    is_everywhere = models.BooleanField()
    locations = models.ManyToManyField(Location, related_name="+", blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    # To the minute.
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()

    @property
    def works(self) -> bool:
        """Whether it may be used, as long as its person has a role that it allows."""
        return self.user.is_active and self.revoked_at is None and not self.has_expired

    @property
    def limited_user(self) -> User:
        """Its person, who may do no more than the token allows (``access_of``)."""
        places = None if self.is_everywhere else self.locations.values_list("pk", flat=True)
        user: User = self.user
        user._access = access_of(user).limited_to(self.level, places)  # type: ignore[attr-defined]
        return user

    def revoke(self) -> bool:
        """Record that it no longer works. Return False if it was revoked before."""
        return bool(ApiToken.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=Now()))


class IdempotencyKey(models.Model):
    """A key with which a program has sent a start, so that sending it again starts nothing.

    ``uid`` is the key of the job or sweep that it starts, so of two simultaneous requests one starts it.
    """

    # After this, nothing is started with it: what it has started may have been removed.
    LIFETIME = timedelta(hours=1)

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    # Of the address and the body.
    request_digest = models.CharField(max_length=64)
    uid = models.UUIDField(default=uuid4, editable=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="unique_idempotency_key")]

    def __str__(self) -> str:
        return self.key

    @classmethod
    def first(cls, user: Any, key: str, content: str) -> IdempotencyKey:
        """Return the row of a user's key, stored for this request if it is new."""
        found, is_new = cls.objects.get_or_create(
            user_id=user.pk, key=key, defaults={"request_digest": _digest_of(content)}
        )
        if is_new:
            found.refresh_from_db()
        return found

    def is_of(self, content: str) -> bool:
        """Whether it was first sent with this request."""
        return self.request_digest == _digest_of(content)

    @property
    def is_old(self) -> bool:
        return self.created_at < timezone.now() - self.LIFETIME


def _digest_of(content: str) -> str:
    return salted_hmac("viewer.models.tokens", content, algorithm="sha256").hexdigest()


# Links with which people without a login see one object.


class ShareLinkQuerySet(VisibleQuerySet["ShareLink"]):
    """Queries for share links."""

    def condition(self, access: Access, level: int) -> Q:
        """The person's own."""
        return Q(made_by=access.user)


class ShareLink(models.Model):
    """A link to one object. Its token is in the link only: the row has a hash of it."""

    class Kind(models.TextChoices):
        RUN = "run", _("Run")
        CHECKPOINT = "checkpoint", _("Checkpoint")
        COMPARISON = "comparison", _("Comparison")
        SEARCH = "search", _("Search")
        JOB = "job", _("Job")

    # SHA-256 of the token, which has 256 random bits.
    token_hash = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=20, choices=Kind)
    # The reference to the object (viewer/presentation/share_links.py).
    target = models.TextField()
    # Its title when the link was made, for the list of links.
    title = models.CharField(max_length=300)
    # The keys of the locations that the object belongs to. Keys are never used again.
    locations = models.JSONField(default=list)
    # A link ends with the account of its maker.
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="share_links"
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    # Browser sessions that opened it, without those of its maker and of link previews.
    views = models.PositiveIntegerField(default=0)
    last_viewed_at = models.DateTimeField(null=True, blank=True)
    # Whether a chat shows the title, and of a run a picture, where the link is pasted.
    unfurls = models.BooleanField(default=False)

    objects = VisibleManager.from_queryset(ShareLinkQuerySet)()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.title}"

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()

    def revoke(self) -> None:
        """Record that the link no longer works. A second revocation changes nothing."""
        ShareLink.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=timezone.now())
        self.refresh_from_db(fields=["revoked_at"])

    def count_view(self) -> None:
        """Count one more session that opened it."""
        seen = {"views": models.F("views") + 1, "last_viewed_at": timezone.now()}
        ShareLink.objects.filter(pk=self.pk).update(**seen)
