"""Values of options: texts, files and JSON."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _


def read_text(text: str) -> str:
    """The text, or the content of the file that it names after an @. Raises CommandError."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            _("%(file)s cannot be read: %(error)s") % {"file": text[1:], "error": error}
        ) from None


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE. Raises CommandError."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise CommandError(_("%(option)s needs NAME=VALUE, not %(text)s.") % {"option": option, "text": text})
    return name, value


def json_value(text: str, option: str) -> Any:
    """The value of a JSON text. Raises CommandError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = json.dumps(text, ensure_ascii=False)
        message = _("%(option)s must be JSON (%(error)s). A text is written in quotes: %(hint)s")
        raise CommandError(message % {"option": option, "error": error, "hint": hint}) from None
