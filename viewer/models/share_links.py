"""Links with which people without a login see one object."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


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
    # The reference to the object (viewer/sharing/subjects.py).
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
