"""Where people are notified, of what, and the messages to them."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

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
