"""Filters for amounts of money and of time."""

from math import floor, log10

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext

register = template.Library()


@register.filter
def money(amount: float | None) -> str:
    """US dollars with two significant digits at least: ``$12.40``, ``$0.013``; "no price" for None."""
    if amount is None:
        return gettext("no price")
    if amount == 0:
        return "$0.00"
    if amount < 1e-6:
        return "< $0.000001"
    places = 2 if amount >= 0.1 else 1 - floor(log10(amount))
    return f"${number_format(round(amount, places), decimal_pos=places, force_grouping=True)}"


@register.simple_tag
def cost_of(amount: float | None, unpriced_calls: int) -> str:
    """The cost of some calls: at least the amount if some have no price; empty if there were none."""
    if amount is None:
        return gettext("no price") if unpriced_calls else ""
    return f"≥ {money(amount)}" if unpriced_calls else money(amount)


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds with a unit: ``0.42 s``, ``13 s``, ``2 min 5 s``, ``2 d 4 h``; empty for None."""
    if seconds is None:
        return ""
    if seconds < 10:
        return gettext("%(number)s s") % {"number": number_format(round(seconds, 2), decimal_pos=None)}
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [
        (days, gettext("%(number)s d")),
        (hours, gettext("%(number)s h")),
        (minutes, gettext("%(number)s min")),
        (rest, gettext("%(number)s s")),
    ]
    shown = [(number, text) for number, text in parts if number] or parts[-1:]
    first = parts.index(shown[0])
    return " ".join(text % {"number": number} for number, text in parts[first : first + 2] if number)


@register.filter
def count(number: int) -> str:
    """A number with its thousands separated."""
    return number_format(number, force_grouping=True)
