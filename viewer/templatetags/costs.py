"""Filters for amounts of money and of time."""

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext

from viewer.presentation.amounts import duration, money

register = template.Library()
register.filter("money", money)
register.filter("duration", duration)


@register.simple_tag
def cost_of(amount: float | None, unpriced_calls: int) -> str:
    """The cost of some calls: at least the amount if some have no price; empty if there were none."""
    if amount is None:
        return gettext("no price") if unpriced_calls else ""
    return f"≥ {money(amount)}" if unpriced_calls else money(amount)


@register.filter
def count(number: int) -> str:
    """A number with its thousands separated."""
    return number_format(number, force_grouping=True)
