"""Filters for the lineage templates."""

from collections.abc import Mapping
from functools import lru_cache

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from viewer.formats import count_text
from viewer.models import Checkpoint
from viewer.presentation.run.branches import Moment, statuses_text, title_of
from viewer.presentation.run.visible import Collapsing
from viewer.templatetags.figures import short_branch

register = template.Library()
register.filter("checkpoint_title", title_of)
register.filter("branch_statuses", statuses_text)


@register.filter
def checkpoint_heading(checkpoint: Checkpoint) -> str:
    """The branch and the title: ``main, 2 of 4 completed``."""
    return f"{checkpoint.branch}, {title_of(checkpoint)}"


@register.filter
def colour_in(branch: str, colours: Mapping[str, int]) -> int:
    """Return the index of the branch's colour, 0 to 7."""
    return colours.get(branch, 0)


@register.filter
def branch_toggle(collapsing: Collapsing, branch: str) -> str:
    """Return the parameters of an address with the branch collapsed, or not any more."""
    return collapsing.toggled_branch(branch).query


@register.filter
def checkpoint_count(count: int) -> str:
    """Return the number of checkpoints in words."""
    return ngettext("%(count)s checkpoint", "%(count)s checkpoints", count) % {"count": count_text(count)}


@register.filter
def run_count(count: int) -> str:
    """Return the number of runs in words."""
    return ngettext("%(count)s run", "%(count)s runs", count) % {"count": count_text(count)}


# The next two mark up parts of a row. A page has about a hundred rows, and a template for each part would
# take several times as long.


@register.filter
def clock_mark(moment: Moment | None) -> SafeString | str:
    """Return the time of day at which a row was created, or an empty text."""
    if moment is None:
        return ""
    mark = '<time class="mono" datetime="{}" data-time="clock" title="{}">{}</time>'
    return format_html(mark, moment.iso, moment.whole, moment.clock)


@register.filter
@lru_cache(maxsize=1000)
def stretch_branch(branch: str, colour: int) -> SafeString:
    """Return the name of the branch whose stretch begins at a row."""
    mark = '<span class="row-branch mono lane-{}" title="{}">{}</span>'
    return format_html(mark, colour, branch, short_branch(branch))
