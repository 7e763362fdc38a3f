"""Amounts of money and of time as texts."""

from math import floor, log10

from django.utils.formats import number_format
from django.utils.translation import gettext


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


def duration(seconds: float | None) -> str:
    """Seconds with a unit: ``4 ms``, ``0.42 s``, ``13 s``, ``2 min 5 s``, ``2 d 4 h``; empty for None."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.01:
        milliseconds = round(seconds * 1000, 0 if seconds >= 0.00095 else 1)
        if milliseconds < 0.1:
            return gettext("< %(number)s ms") % {"number": number_format(0.1)}
        digits = number_format(int(milliseconds) if milliseconds >= 1 else milliseconds)
        return gettext("%(number)s ms") % {"number": digits}
    if seconds < 10:
        rounded = round(float(seconds), 2)
        digits = number_format(rounded, decimal_pos=0 if rounded.is_integer() else 2)
        return gettext("%(number)s s") % {"number": digits}
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
