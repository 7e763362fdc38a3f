"""Filters that format numbers, sizes and texts."""

import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from html import unescape
from typing import Any

from django import template
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.translation import gettext

from viewer.comparison.diff.words import Piece
from viewer.presentation.amounts import duration
from viewer.presentation.markdown import as_html
from viewer.presentation.run.triggers import trigger_label

register = template.Library()
register.filter("trigger_label", trigger_label)
register.filter("markdown", as_html)

MAX_BRANCH = 20
MAX_TITLE = 120
# The name that the engine gives a fork: only its end is distinctive.
GENERATED_BRANCH = re.compile(r"fork/\d{8}T\d{6}_")


def _rounded(value: float, places: int) -> str:
    """Return the number, rounded, in the active language. Django alone would truncate it."""
    return number_format(round(value, places), decimal_pos=places)


@register.filter
def short_number(value: int) -> str:
    """``950``, ``1.2k``, ``3.4M``; empty for 0."""
    # What would be rounded up to 1000k is given in the next unit.
    for size, least, unit in ((1_000_000, 999_500, "M"), (1_000, 1_000, "k")):
        if value >= least:
            return f"{_rounded(value / size, 1 if value < 100 * size else 0)}{unit}"
    return str(value) if value else ""


@register.filter
def short_size(value: int) -> str:
    """Bytes as ``812 B``, ``48 KB``, ``1.2 MB``, with 1024 bytes to the KB."""
    if value < 1024:
        return gettext("%(size)s B") % {"size": value}
    if value < 1024 * 1024:
        return gettext("%(size)s KB") % {"size": round(value / 1024)}
    return gettext("%(size)s MB") % {"size": _rounded(value / 1024 / 1024, 1)}


@register.filter
@lru_cache(maxsize=1000)
def bar_marks(bars: tuple[str, ...]) -> SafeString:
    """Return a bar for each unit of a row. Cached: a page has hundreds, and few differ."""
    return format_html_join("", '<i class="bar {}"></i>', ((bar,) for bar in bars))


@register.filter
def marked(pieces: Iterable[Piece], tag: str) -> SafeString:
    """The text of the pieces, with the changed ones in this HTML element."""
    marks = {True: format_html("<{0}>{{}}</{0}>", tag), False: "{}"}
    return format_html_join("", "{}", ((format_html(marks[piece.changed], piece.text),) for piece in pieces))


@register.filter
def pretty_json(value: Any) -> str:
    """Return the value as indented JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def as_value(value: Any) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else pretty_json(value)


@register.filter
def kind_of_value(value: Any) -> str:
    """Return the type of a JSON value in a word."""
    if value is None:
        return gettext("nothing")
    if isinstance(value, bool):
        return gettext("yes or no")
    text = {str: gettext("text"), int: gettext("number"), float: gettext("number"), list: gettext("list")}
    return text.get(type(value), gettext("object"))


@register.filter
def since(at: datetime | None, start: datetime | None) -> str:
    """Return the time since ``start``, such as ``+4 ms`` or ``+4:07``; empty if a time is missing."""
    if at is None or start is None:
        return ""
    gone = at - start
    if round(gone.total_seconds()) < 60:
        return f"+{duration(gone.total_seconds())}"
    minutes, seconds = divmod(int(gone.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}:{minutes:02}:{seconds:02}" if hours else f"+{minutes}:{seconds:02}"


@register.filter
def short_branch(branch: str) -> str:
    """Return at most 20 characters of the name, cut in the middle: ``fork/…a1b2c3``."""
    if len(branch) <= MAX_BRANCH:
        return branch
    if GENERATED_BRANCH.match(branch):
        return f"fork/…{branch[-6:]}"
    return f"{branch[:10]}…{branch[-9:]}"


@register.filter
def ago(at: datetime) -> str:
    """Return how long ago that was, in words."""
    if timezone.now() - at < timedelta(minutes=1):
        return gettext("just now")
    return gettext("%(time)s ago") % {"time": timesince(at)}


@register.filter
def beginning(text: str, max_length: int) -> str:
    """Return the first ``max_length`` characters, cut at a word."""
    if len(text) <= max_length:
        return text
    return text[:max_length].rsplit(" ", 1)[0] + " …"


@register.filter
def one_line(html: str) -> SafeString:
    """Return the rendered text of a page's title on one line, with at most MAX_TITLE characters."""
    text = " ".join(unescape(html).split())
    return escape(Truncator(text).chars(MAX_TITLE))


@register.filter
def for_time(since: datetime) -> str:
    """Return how long something has lasted: ``for 3 minutes``."""
    if timezone.now() - since < timedelta(minutes=1):
        return gettext("for less than a minute")
    return gettext("for %(time)s") % {"time": timesince(since)}
