"""Filters for the lineage templates."""

from collections.abc import Mapping

from django import template

from viewer.models import Checkpoint
from viewer.presentation.run.triggers import title_of
from viewer.presentation.run.visible.address import Collapsing

register = template.Library()
register.filter("checkpoint_title", title_of)


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
