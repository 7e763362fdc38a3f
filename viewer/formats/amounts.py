"""Numbers, sizes, money and durations as texts, each in one format, in the language of the page."""

from math import floor, log10

from django.utils.formats import number_format
from django.utils.translation import gettext


def count_text(number: float) -> str:
    """The number with its thousands separated: ``2,001``."""
    return number_format(number, force_grouping=True)


def short_number(number: int) -> str:
    """``950``, ``1.2k``, ``3.4M``; empty for 0."""
    # What would be rounded up to 1000k is given in the next unit.
    for size, least, unit in ((1_000_000, 999_500, "M"), (1_000, 1_000, "k")):
        if number >= least:
            return f"{_rounded(number / size, 1 if number < 100 * size else 0)}{unit}"
    return str(number) if number else ""


def short_size(size: int) -> str:
    """Bytes as ``812 B``, ``48 KB``, ``1.2 MB``, ``3.4 GB``, with 1024 bytes to the KB."""
    if size < 1024:
        return gettext("%(size)s B") % {"size": size}
    if size < 1024**2:
        return gettext("%(size)s KB") % {"size": round(size / 1024)}
    if size < 1024**3:
        return gettext("%(size)s MB") % {"size": _rounded(size / 1024**2, 1)}
    return gettext("%(size)s GB") % {"size": _rounded(size / 1024**3, 1)}


def money(amount: float | None) -> str:
    """US dollars with two significant digits at least: ``$12.40``, ``$0.013``; "no price" for None."""
    if amount is None:
        return gettext("no price")
    if amount == 0:
        return f"${_rounded(0, 2)}"
    if amount < 1e-6:
        return f"< ${_rounded(1e-6, 6)}"
    places = 2 if amount >= 0.1 else 1 - floor(log10(amount))
    return f"${_rounded(amount, places)}"


def duration(seconds: float | None) -> str:
    """Seconds with a unit: ``4 ms``, ``1.8 s``, ``13 s``, ``2 min 5 s``, ``2 d 4 h``; empty for None.

    ``static/js/live.js`` writes the same for a time that is passing.
    """
    if seconds is None:
        return ""
    if 0 < seconds < 0.001:
        return gettext("< %(number)s ms") % {"number": 1}
    if 0 < seconds < 0.9995:
        return gettext("%(number)s ms") % {"number": round(seconds * 1000)}
    if seconds < 9.95:
        tenths = round(float(seconds), 1)
        return gettext("%(number)s s") % {"number": _rounded(tenths, 0 if tenths.is_integer() else 1)}
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = list(zip((days, hours, minutes, rest), duration_units(), strict=True))
    shown = [(number, text) for number, text in parts if number] or parts[-1:]
    first = parts.index(shown[0])
    return " ".join(text % {"number": number} for number, text in parts[first : first + 2] if number)


def duration_units() -> list[str]:
    """The texts for days, hours, minutes and seconds, with a place for the number."""
    return [
        gettext("%(number)s d"),
        gettext("%(number)s h"),
        gettext("%(number)s min"),
        gettext("%(number)s s"),
    ]


def _rounded(number: float, places: int) -> str:
    """The number, rounded, in the active language. Django alone would truncate it."""
    return number_format(round(number, places), decimal_pos=places, force_grouping=True)
