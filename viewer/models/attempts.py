"""Failed logins, and links that do not work, which the web servers of one database count together."""

from __future__ import annotations

from django.db import models


class AttemptCount(models.Model):
    """How many attempts have failed in the current window, by a digest of what they are counted for."""

    key = models.CharField(max_length=64, primary_key=True)
    count = models.PositiveIntegerField()
    # By the database's clock, since those of the web servers may differ.
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.count} until {self.ends_at}"
