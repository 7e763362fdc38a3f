"""Times on pages. ``static/js/times.js`` formats them again for a reader who has chosen another time zone."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.dateformat import format as formatted
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# The formats that static/js/times.js knows.
FORMATS = {
    "full": "j M Y, H:i:s T",
    "minute": "j M Y, H:i T",
    "recent": "j M, H:i:s T",
    "day": "j M Y",
    "clock": "H:i:s",
    "time": "H:i",
}


@register.filter
def moment(at: datetime | None, name: str) -> SafeString | str:
    """Return the time as an element, in one of FORMATS; empty without a time."""
    if at is None:
        return ""
    here = timezone.localtime(at)
    return format_html(
        '<time datetime="{}" data-time="{}">{}</time>', here.isoformat(), name, formatted(here, FORMATS[name])
    )


@register.filter
def short_moment(at: datetime) -> str:
    """Return the time of a moment of today, else its day, with the year of another year."""
    here, now = timezone.localtime(at), timezone.localtime()
    if here.date() == now.date():
        return formatted(here, "H:i")
    return formatted(here, "j M, H:i" if here.year == now.year else "j M Y")
