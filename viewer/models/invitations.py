"""Invitations: links with which people create their accounts."""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.models.locations import Location
from viewer.models.roles import Access, Level, Team, VisibleManager, VisibleQuerySet, visible_rows


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
