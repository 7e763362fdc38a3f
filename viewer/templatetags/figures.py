"""Filters and tags for numbers, amounts, times and texts."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from html import unescape
from typing import Any

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.timezone import localtime, now
from django.utils.translation import gettext, ngettext

from viewer.engines.recorded_calls import call_name
from viewer.formats import (
    count_text,
    duration,
    duration_units,
    moment_text,
    money,
    score_number,
    short_moment,
    short_number,
    short_size,
)
from viewer.messages.translation import translate
from viewer.presentation.run.branches import trigger_label
from viewer.presentation.values import Piece, as_html

# Filters that format numbers, sizes and texts.


register = template.Library()
register.filter("trigger_label", trigger_label)
register.filter("markdown", as_html)

MAX_BRANCH = 20
MAX_TITLE = 120
# The name that the engine gives a fork: only its end is distinctive.
GENERATED_BRANCH = re.compile(r"fork/\d{8}T\d{6}_")


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
def with_each(heads: Sequence[Any], cells: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the head of each column with its cell."""
    return list(zip(heads, cells, strict=True))


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
def short_branch(branch: str) -> str:
    """Return at most 20 characters of the name, cut in the middle: ``fork/…a1b2c3``."""
    if len(branch) <= MAX_BRANCH:
        return branch
    if GENERATED_BRANCH.match(branch):
        return f"fork/…{branch[-6:]}"
    return f"{branch[:10]}…{branch[-9:]}"


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


# Filters for numbers, sizes, money and durations.


register.filter("count", count_text)
register.filter("short_number", short_number)
register.filter("score_number", score_number)
register.filter("short_size", short_size)
register.filter("money", money)
register.filter("duration", duration)


@register.simple_tag
def cost_of(amount: float | None, unpriced_calls: int) -> str:
    """The cost of some calls: at least the amount if some have no price; empty if there were none."""
    if amount is None:
        return gettext("no price") if unpriced_calls else ""
    return f"≥ {money(amount)}" if unpriced_calls else money(amount)


@register.simple_tag
def duration_texts() -> str:
    """Return the units of a duration as JSON for ``static/js/live.js``."""
    return json.dumps(duration_units(), ensure_ascii=False)


# Texts with a number that scripts fill in, in the plural forms of every language.


# In each language, every plural form is that of one of these numbers.
SAMPLES = (0, 1, 2, 3, 11, 100)
TEXTS: dict[str, Callable[[int], str]] = {
    "commands": lambda number: ngettext("%(count)s command", "%(count)s commands", number),
    "new_checkpoints": lambda number: ngettext(
        "%(count)s new checkpoint", "%(count)s new checkpoints", number
    ),
    "picked": lambda number: ngettext("%(count)s picked to compare", "%(count)s picked to compare", number),
}


@register.simple_tag
def counts(name: str) -> str:
    """Return the text of this name for each sample, as JSON for ``static/js/counts.js``."""
    return json.dumps({number: TEXTS[name](number) for number in SAMPLES}, ensure_ascii=False)


# Times on pages. ``static/js/times.js`` formats them again for a reader with another time zone or clock.


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


# Stored messages in templates.


register.filter("message", translate)
register.filter("call_name", call_name)
