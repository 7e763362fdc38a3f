"""The measures of limits, and the daily limits of all jobs."""

from __future__ import annotations

from typing import Any

from django.db import models

# Limits are stored by measure, without the unset ones: {"tokens": 50000, "seconds": 600, "steps": 20}.
MEASURES = ("tokens", "seconds", "steps")


class DayLimits(models.Model):
    """The daily limits of all jobs together. There is at most one row."""

    # Always true, and unique, so that there is only one row.
    is_current = models.BooleanField(default=True, unique=True, editable=False)
    limits = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(is_current=True), name="day_limits_are_current")
        ]

    def __str__(self) -> str:
        return str(self.limits)

    @classmethod
    def current(cls) -> dict[str, Any]:
        """Return the limits; empty if there are none."""
        return cls.objects.values_list("limits", flat=True).first() or {}

    @classmethod
    def change(cls, limits: dict[str, Any]) -> None:
        """Set and save the limits."""
        cls.objects.update_or_create(is_current=True, defaults={"limits": limits})
