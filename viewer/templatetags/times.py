"""Times on pages. ``static/js/times.js`` formats them again for a reader who has chosen another time zone."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.dateformat import format as formatted
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

register = template.Library()

# The formats that static/js/times.js knows: of the day, with or without its year, and of the time.
FORMATS = {
    "full": ("year", "H:i:s T"),
    "minute": ("year", "H:i T"),
    "recent": ("day", "H:i:s T"),
    "day": ("year", ""),
    "clock": ("", "H:i:s"),
    "time": ("", "H:i"),
}


@register.filter
def moment(at: datetime | None, name: str) -> SafeString | str:
    """Return the time as an element, in one of FORMATS; empty without a time."""
    if at is None:
        return ""
    here = timezone.localtime(at)
    text = formatted(here, _format(*FORMATS[name]))
    return format_html('<time datetime="{}" data-time="{}">{}</time>', here.isoformat(), name, text)


@register.filter
def short_moment(at: datetime) -> str:
    """Return the time of a moment of today, else its day, with the year of another year."""
    here, now = timezone.localtime(at), timezone.localtime()
    if here.date() == now.date():
        return formatted(here, "H:i")
    return formatted(here, _format("day", "H:i") if here.year == now.year else _format("year"))


def _format(day: str, time: str = "") -> str:
    """Return a format of Django's in the order of the active language."""
    # Day, short month and year, in the letters of the template filter "date".
    days = {"year": gettext("j M Y"), "day": gettext("j M")}
    return ", ".join(filter(None, [days.get(day, ""), time]))
