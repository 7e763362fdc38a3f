"""What the web servers of one database share: counts of attempts, and which people have a run open."""

from django.conf import settings
from django.db import models


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
