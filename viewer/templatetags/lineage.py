"""What the lineage's templates need beside plain variables."""

from collections.abc import Mapping

from django import template

from viewer.models import Checkpoint
from viewer.picture.triggers import title_of

register = template.Library()


@register.filter
def colour_in(branch: str, colours: Mapping[str, int]) -> int:
    """The branch's colour, 0 to 7."""
    return colours.get(branch, 0)


@register.filter
def title(checkpoint: Checkpoint) -> str:
    return title_of(checkpoint)
