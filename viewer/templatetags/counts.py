"""Texts with a number that scripts fill in, in the plural forms of every language."""

import json
from collections.abc import Callable

from django import template
from django.utils.translation import ngettext

register = template.Library()

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
