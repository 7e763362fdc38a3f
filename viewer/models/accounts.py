"""What belongs to an account: settings, notifications, searches, API tokens, invitations and share links."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.models.locations import Location
from viewer.models.roles import Access, Level, Team, VisibleManager, VisibleQuerySet, access_of, visible_rows

# How pages look to a person, and in which language.


class ReaderSettings(models.Model):
    """The settings of one user. A user without a row has the defaults."""

    class Theme(models.TextChoices):
        SYSTEM = "system", _("As the system")
        LIGHT = "light", _("Light")
        DARK = "dark", _("Dark")

    class TimeZone(models.TextChoices):
        SERVER = "server", _("Time zone of the server")
        LOCAL = "local", _("Time zone of your browser")
        UTC = "utc", _("UTC")

    class Clock(models.TextChoices):
        HOURS_24 = "24", _("24 hours")
        HOURS_12 = "12", _("12 hours")

    class Density(models.TextChoices):
        COMFORTABLE = "comfortable", _("Comfortable")
        COMPACT = "compact", _("Compact")

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="reader_settings"
    )
    theme = models.CharField(max_length=20, choices=Theme, default=Theme.SYSTEM)
    time_zone = models.CharField(max_length=20, choices=TimeZone, default=TimeZone.SERVER)
    clock = models.CharField(max_length=20, choices=Clock, default=Clock.HOURS_24)
    density = models.CharField(max_length=20, choices=Density, default=Density.COMFORTABLE)
    # A code of LANGUAGES; empty for the browser's language.
    language = models.CharField(max_length=20, blank=True, default="")
    # Whether an open page shows a desktop notification when its job ends or asks.
    notifies = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.user_id}: {self.theme}"


def settings_of(user: Any) -> ReaderSettings:
    """Return the settings of a user; the defaults, not stored, if there are none."""
    if not user.is_authenticated:
        return ReaderSettings()
    # Django caches the result on the user, so each request queries once.
    try:
        found: ReaderSettings = user.reader_settings
    except ReaderSettings.DoesNotExist:
        return ReaderSettings(user=user)
    return found


def chosen_language(user: Any) -> str:
    """Return the code of the language that a user has chosen; empty for the browser's."""
    language = settings_of(user).language
    return language if language in dict(settings.LANGUAGES) else ""


def settings_context(request: HttpRequest) -> dict[str, Any]:
    """Return the settings of the user, which are only read where a template uses them."""
    return {
        "reader_settings": SimpleLazyObject(lambda: settings_of(request.user)),
        "server_zone": settings.TIME_ZONE,
    }


# Where people are notified, of what, and the messages to them.

# Seconds until the next attempt, after each failed one. There is none after the last.
BACK_OFF = (60, 300, 1800, 7200, 43_200)
# How long a sender that was killed keeps others from sending a message.
CLAIM_SECONDS = 300


class NotificationTarget(models.Model):
    """A person's mail address or webhook, and what is sent there."""

    class Kind(models.TextChoices):
        MAIL = "mail", _("Mail")
        WEBHOOK = "webhook", _("Webhook")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notification_targets"
    )
    kind = models.CharField(max_length=20, choices=Kind)
    # A mail address or a URL.
    address = models.CharField(max_length=500)
    # Signs the messages to a webhook.
    secret = models.CharField(max_length=100, blank=True)
    of_questions = models.BooleanField(default=True)
    of_jobs = models.BooleanField(default=True)
    of_limits = models.BooleanField(default=True)
    of_mentions = models.BooleanField(default=True)
    # Of every job that the person may see, instead of their own.
    of_all_jobs = models.BooleanField(default=False)
    # What happened before is not sent.
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "kind"], name="unique_notification_target")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.address}"


class Notification(models.Model):
    """One message to one target: what kind of event it was, and the page that shows it."""

    class Event(models.TextChoices):
        QUESTION = "question.waiting", _("A question waits for an answer.")
        JOB = "job.ended", _("A job has ended.")
        LIMIT = "limit.reached", _("A job was stopped because a limit was reached.")
        MENTION = "comment.mention", _("Somebody mentioned you in a comment.")

    target = models.ForeignKey(NotificationTarget, on_delete=models.CASCADE, related_name="notifications")
    event = models.CharField(max_length=20, choices=Event)
    # The row that it is about. A target gets one message about it.
    key = models.CharField(max_length=60)
    # The address of the page, without its origin. It has keys of rows only.
    path = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    # When it is sent, or tried again; None if it was sent or given up.
    due_at = models.DateTimeField(null=True, blank=True, default=timezone.now, db_index=True)
    tries = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    # Why the last attempt failed.
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["target", "key"], name="unique_notification")]

    def __str__(self) -> str:
        return f"{self.event} {self.path}"

    @property
    def identifier(self) -> str:
        """What is the same for each attempt, and for no other message, also after a backup was restored."""
        return f"msg_{self.pk}_{int(self.created_at.timestamp())}"

    @property
    def was_given_up(self) -> bool:
        return self.due_at is None and self.sent_at is None

    def claim(self) -> bool:
        """Take the message for sending. Return False if another process has it, or has sent it."""
        until = timezone.now() + timedelta(seconds=CLAIM_SECONDS)
        mine = Notification.objects.filter(pk=self.pk, due_at=self.due_at, sent_at=None)
        if not mine.update(due_at=until, tries=F("tries") + 1):
            return False
        self.refresh_from_db(fields=["due_at", "tries"])
        return True

    def record_sent(self) -> None:
        """Record that it has arrived."""
        Notification.objects.filter(pk=self.pk).update(due_at=None, sent_at=timezone.now(), error="")

    def record_failure(self, reason: str, *, is_final: bool = False) -> None:
        """Record why it was not sent. All messages to the target wait until the next attempt."""
        again = None
        if self.tries <= len(BACK_OFF) and not is_final:
            again = timezone.now() + timedelta(seconds=BACK_OFF[self.tries - 1])
            waiting = Notification.objects.filter(target=self.target_id, due_at__lt=again)
            waiting.exclude(pk=self.pk).update(due_at=again)
        Notification.objects.filter(pk=self.pk).update(due_at=again, error=reason[:200])


class MutedRun(models.Model):
    """A run of which one person is not notified."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="muted_runs")
    # Location.uid and Run.key, which are the same after every import.
    location_uid = models.UUIDField()
    run_key = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "location_uid", "run_key"], name="unique_muted_run")
        ]

    def __str__(self) -> str:
        return self.run_key


# Searches that people have saved.


class SavedSearch(models.Model):
    """A search that a person has given a name. ``query`` is the query of its address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_searches"
    )
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=2000)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="unique_saved_search")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"{reverse('search')}?{self.query}"


# The tokens of programs, invitations and share links. A row has a hash of its token.

# Longer texts are no tokens.
MAX_TOKEN = 100


def new_token() -> str:
    """Return a token of 256 random bits, which nobody guesses."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """Return what is stored of a token. It needs no salt: a token has 256 random bits."""
    return sha256(token.encode(errors="replace")).hexdigest()


# Tokens with which programs use the HTTP interface as a person, and the keys of what they start.

# What begins every token, so that people and programs that look for secrets recognise one.
API_TOKEN_PREFIX = "fkl_"  # noqa: S105
API_TOKEN = re.compile(rf"{API_TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")


class ApiToken(models.Model):
    """A token of a person. Its text is shown once: the row has a hash of it.

    It may do what its person may at that moment, at most what its own role allows, and only at its own
    locations unless it ``is_everywhere``. A location that was removed leaves the others.
    """

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
    # The salt is the one of stored digests.
    return salted_hmac("viewer.models.tokens", content, algorithm="sha256").hexdigest()


# Invitations of new people.


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
            where = self.location.path if self.location else gettext("all locations")
            role = gettext("%(level)s on %(where)s") % {"level": self.get_level_display(), "where": where}
        member = gettext("member of %(team)s") % {"team": self.team} if self.team else ""
        return ", ".join(filter(None, [role, member]))

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()


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
        seen = {"views": F("views") + 1, "last_viewed_at": timezone.now()}
        ShareLink.objects.filter(pk=self.pk).update(**seen)
