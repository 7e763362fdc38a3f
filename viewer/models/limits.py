"""How much may be used: by one job, by a project, and by everything in one day."""

from __future__ import annotations

from typing import Any

from django.db import models

# What is counted. A limit that is not set is not there: {"tokens": 50000, "seconds": 600, "steps": 20}.
MEASURES = ("tokens", "seconds", "steps")


class DayLimits(models.Model):
    """The one row that says how much all jobs of a day may use together."""

    limits = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return str(self.limits)

    @classmethod
    def current(cls) -> DayLimits:
        """The row; without limits where there is none yet. Nothing is written."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)

    def change(self, limits: dict[str, Any]) -> None:
        """Hold these limits from now on."""
        self.limits = limits
        self.save()
