"""Points in time as texts, in the language of the page. ``static/js/times.js`` knows the same formats."""

from datetime import date, datetime
from functools import lru_cache

from django.utils.dateformat import format as formatted
from django.utils.timezone import localtime
from django.utils.translation import get_language, gettext

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
    return ", ".join(filter(None, [_day_text(here.date(), day, get_language()) if day else "", clock]))


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
    """Return a day in the active language, which the cache tells apart."""
    # Day, short month and year, in the letters of the template filter "date".
    return formatted(day, gettext("j M Y") if name == "year" else gettext("j M"))
