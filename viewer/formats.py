"""Numbers, sizes, money, durations and times as texts, each in one format, in the language of the page."""

from datetime import date, datetime
from functools import lru_cache
from math import floor, log10

from django.utils.dateformat import format as formatted
from django.utils.formats import number_format
from django.utils.timezone import localtime
from django.utils.translation import get_language, gettext

# Numbers, sizes, money and durations as texts, each in one format, in the language of the page.


def count_text(number: float) -> str:
    """The number with its thousands separated: ``2,001``."""
    return number_format(number, force_grouping=True)


def score_number(number: float) -> str:
    """A score, or a difference of scores, with at most four significant digits: ``0.8235``."""
    return f"{number:.4g}"


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


# Points in time as texts, in the language of the page. ``static/js/times.js`` knows the same formats.


# The parts of each format: the day, with or without its year, and the time.
FORMATS = {
    "full": ("year", "%H:%M:%S", True),
    "minute": ("year", "%H:%M", True),
    "recent": ("day", "%H:%M:%S", True),
    "day_and_time": ("day", "%H:%M", False),
    "day": ("year", "", False),
    "clock": ("", "%H:%M:%S", False),
    "time": ("", "%H:%M", False),
}


def moment_text(at: datetime, name: str) -> str:
    """Return the time in one of FORMATS, in the current time zone: ``31 Jan 2026, 14:05:09 UTC``."""
    day, time, has_zone = FORMATS[name]
    here = localtime(at)
    # Pages have a thousand of these, and Django's own format takes three times as long.
    clock = f"{here:{time}}" if time else ""
    if has_zone:
        clock += f" {here.tzname()}"
    if not day:
        return clock
    date_text = _day_text(here.date(), day, get_language())
    return gettext("%(day)s, %(time)s") % {"day": date_text, "time": clock} if clock else date_text


def short_name(at: datetime) -> str:
    """Return the name of the format in which a list shows a time: shorter the nearer it is."""
    here, now = localtime(at), localtime()
    if here.date() == now.date():
        return "time"
    return "day_and_time" if here.year == now.year else "day"


def short_moment(at: datetime) -> str:
    """Return the time of a moment of today, else its day and time, and for another year the day and year."""
    return moment_text(at, short_name(at))


@lru_cache(maxsize=1000)
def _day_text(day: date, name: str, language: str | None) -> str:
    """Return a day in the active language. The cache has an entry for each language."""
    # Day, short month and year, in the letters of the template filter "date".
    return formatted(day, gettext("j M Y") if name == "year" else gettext("j M"))
