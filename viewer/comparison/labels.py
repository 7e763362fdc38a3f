"""Labels of a comparison, and values in a few words."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.engines.comparable import Section
from viewer.formats.amounts import count_text

# The longest value that a cell shows as it is.
MAX_CELL = 60

SECTIONS: Mapping[str, str | Promise] = {
    Section.INPUTS: gettext_lazy("Inputs"),
    Section.SETTINGS: gettext_lazy("Settings"),
    Section.STATE: gettext_lazy("State"),
    Section.OUTPUTS: gettext_lazy("Outputs"),
    Section.MESSAGES: gettext_lazy("Messages"),
    Section.TOOLS: gettext_lazy("Tools"),
}


def summary(section: str, value: Any) -> str:
    """A value in a few words: itself if it is short, or how long it is."""
    if section == Section.MESSAGES and isinstance(value, list):
        return ngettext("%(count)s message", "%(count)s messages", len(value)) % {
            "count": count_text(len(value))
        }
    if section == Section.TOOLS and isinstance(value, list):
        return ngettext("%(count)s call", "%(count)s calls", len(value)) % {"count": count_text(len(value))}
    if isinstance(value, str):
        return _text_summary(value)
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list) and len(value) > MAX_CELL:
        return ngettext("%(count)s item", "%(count)s items", len(value)) % {"count": count_text(len(value))}
    # Only the beginning is shown: the rest of a large value is not written.
    parts = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
    text = ""
    for part in parts:
        text += part[:MAX_CELL]
        if len(text) > MAX_CELL:
            return f"{text[: MAX_CELL - 1]}…"
    return text


def _text_summary(text: str) -> str:
    if not text.strip():
        return _("empty")
    if len(text) <= MAX_CELL and "\n" not in text:
        return text
    count = len(text.split())
    return ngettext("%(count)s word", "%(count)s words", count) % {"count": count_text(count)}
