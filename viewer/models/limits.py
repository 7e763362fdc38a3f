"""How much may be used: by one job, by a project, and by everything in one day."""

from __future__ import annotations

from typing import Any

from django.db import models

# What is counted. A limit that is not set is not there: {"tokens": 50000, "seconds": 600, "steps": 20}.
MEASURES = ("tokens", "seconds", "steps")


class DayLimits(models.Model):
    """The one row that says how much all jobs of a day may use together."""

    # Always true. That it is unique makes the row the only one.
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
        """The limits that are in force; empty if there are none."""
        return cls.objects.values_list("limits", flat=True).first() or {}

    @classmethod
    def change(cls, limits: dict[str, Any]) -> None:
        """Have these limits in force from now on."""
        cls.objects.update_or_create(is_current=True, defaults={"limits": limits})
