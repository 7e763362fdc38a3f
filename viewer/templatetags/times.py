"""Times on pages. ``static/js/times.js`` formats them again for a reader with another time zone or clock."""

from datetime import datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.timezone import localtime, now
from django.utils.translation import gettext

from viewer.formats import duration, moment_text, short_moment

register = template.Library()


@register.filter
def moment(at: datetime | None, name: str) -> SafeString | str:
    """Return the time as an element: ``short``, ``ago``, ``for`` or one of FORMATS; empty without a time.

    The whole time is its title.
    """
    if at is None:
        return ""
    texts = {"short": short_moment, "ago": _ago, "for": _for_time}
    text = texts[name](at) if name in texts else moment_text(at, name)
    return _element(at, text, "" if name in ("ago", "for") else name)


@register.filter
def since(at: datetime | None, start: datetime | None) -> SafeString | str:
    """Return the time since ``start`` as an element: ``+4 min 7 s``; empty if a time is missing."""
    if at is None or start is None:
        return ""
    return _element(at, f"+{duration((at - start).total_seconds())}", "")


def _element(at: datetime, text: str, name: str) -> SafeString:
    """Return a text for a time as an element. The script formats it again if it has the name of a format."""
    mark = '<time datetime="{}" title="{}"{}>{}</time>'
    shown_again = format_html(' data-time="{}"', name) if name else ""
    return format_html(mark, localtime(at).isoformat(), moment_text(at, "full"), shown_again, text)


def _ago(at: datetime) -> str:
    if now() - at < timedelta(minutes=1):
        return gettext("just now")
    return gettext("%(time)s ago") % {"time": timesince(at)}


def _for_time(at: datetime) -> str:
    if now() - at < timedelta(minutes=1):
        return gettext("for less than a minute")
    return gettext("for %(time)s") % {"time": timesince(at)}
