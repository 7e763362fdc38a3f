"""Filters that format numbers, sizes and texts."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import unescape
from typing import Any

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext

from viewer.presentation.diff import Piece
from viewer.presentation.run.rows import trigger_label
from viewer.presentation.values import as_html

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
