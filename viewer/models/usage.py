"""The tokens that a run or a job used, and what they cost."""

from __future__ import annotations

from typing import Any

from django.db import models


class Metered(models.Model):
    """What the model calls of a run or a job used, by model, and their price.

    The price is computed after the usage is stored (viewer/prices/pricing.py).
    """

    # [model, calls, tokens, tokens in, tokens out, cached tokens] for each model, most tokens first.
    usage = models.JSONField(default=list, blank=True, db_default=[])
    tokens_in = models.PositiveBigIntegerField(default=0, db_default=0)
    tokens_out = models.PositiveBigIntegerField(default=0, db_default=0)
    # The models, most tokens first.
    model = models.CharField(max_length=300, blank=True, default="", db_default="")
    # In US dollars. None if no call has a known price.
    cost = models.FloatField(null=True, blank=True)
    # The calls whose price is unknown, which ``cost`` leaves out.
    unpriced_calls = models.PositiveIntegerField(default=0, db_default=0)
    is_priced = models.BooleanField(default=True, db_default=True)

    class Meta:
        abstract = True

    # The columns that the usage determines.
    USAGE_COLUMNS = ("tokens", "usage", "tokens_in", "tokens_out", "model")


def usage_values(usage: list[list[Any]]) -> list[Any]:
    """The values of ``Metered.USAGE_COLUMNS`` for this usage by model."""
    names = ", ".join(row[0] for row in usage if row[0])
    return [sum(row[2] for row in usage), usage, *(sum(row[n] for row in usage) for n in (3, 4)), names[:300]]
