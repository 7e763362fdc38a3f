"""What the lineage's templates need beside plain variables."""

from collections.abc import Mapping

from django import template

from viewer.presentation.run.triggers import title_of

register = template.Library()
register.filter("checkpoint_title", title_of)


@register.filter
def colour_in(branch: str, colours: Mapping[str, int]) -> int:
    """The branch's colour, 0 to 7."""
    return colours.get(branch, 0)
