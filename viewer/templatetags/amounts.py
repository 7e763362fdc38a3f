"""Filters for numbers, sizes, money and durations."""

import json

from django import template
from django.utils.translation import gettext

from viewer.formats import count_text, duration, duration_units, money, short_number, short_size

register = template.Library()
register.filter("count", count_text)
register.filter("short_number", short_number)
register.filter("short_size", short_size)
register.filter("money", money)
register.filter("duration", duration)


@register.simple_tag
def cost_of(amount: float | None, unpriced_calls: int) -> str:
    """The cost of some calls: at least the amount if some have no price; empty if there were none."""
    if amount is None:
        return gettext("no price") if unpriced_calls else ""
    return f"≥ {money(amount)}" if unpriced_calls else money(amount)


@register.simple_tag
def duration_texts() -> str:
    """Return the units of a duration as JSON for ``static/js/live.js``."""
    return json.dumps(duration_units(), ensure_ascii=False)
