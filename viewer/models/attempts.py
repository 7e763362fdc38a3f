"""Failed logins, links that do not work, and used codes, which the web servers of a database share."""

from __future__ import annotations

from django.db import models


class AttemptCount(models.Model):
    """How many attempts there were in the current window, by a digest of what they are counted for."""

    key = models.CharField(max_length=64, primary_key=True)
    count = models.PositiveIntegerField()
    # By the database's clock, since those of the web servers may differ.
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.count} until {self.ends_at}"
