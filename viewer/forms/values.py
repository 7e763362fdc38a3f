"""A stored value as text in a field, and back again with the same type."""

import json
import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _

from viewer.redaction.marker import MARKER

# What one edit may hold, in characters, and how deep its JSON may nest.
MOST_CHARACTERS = 500_000
MOST_DEPTH = 50
MOST_DIGITS = 300
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class Kind(StrEnum):
    """How a value is shown and read back."""

    TEXT = "text"
    WHOLE_NUMBER = "whole_number"
    NUMBER = "number"
    YES_NO = "yes_no"
    LIST = "list"
    JSON = "json"


class ValueRefused(Exception):
    """What was typed is no value of this kind. The message says what would be."""


def kind_of(value: Any) -> Kind:
    """The kind of field that can hold the value and give it back unchanged."""
    if isinstance(value, bool):
        return Kind.YES_NO
    if isinstance(value, str):
        # A page cannot hold the character zero, JSON can.
        return Kind.JSON if "\0" in value else Kind.TEXT
    if isinstance(value, int):
        return Kind.WHOLE_NUMBER
    if isinstance(value, float) and math.isfinite(value):
        return Kind.NUMBER
    if isinstance(value, list) and value and all(_is_line(item) for item in value):
        return Kind.LIST
    return Kind.JSON


def text_of(value: Any, kind: Kind) -> str:
    """The value as the text of its field."""
    if kind is Kind.TEXT:
        return str(value)
    if kind is Kind.LIST:
        return "\n".join(value)
    if kind is Kind.YES_NO:
        return "true" if value else "false"
    return repr(value) if kind in (Kind.WHOLE_NUMBER, Kind.NUMBER) else as_json(value)


def value_of(text: str, kind: Kind) -> Any:
    """What the text of a field means. Raises ValueRefused, also where it still holds the mark of a secret."""
    if len(text) > MOST_CHARACTERS:
        raise ValueRefused(_("This is too long: %(most)d characters at most.") % {"most": MOST_CHARACTERS})
    if MARKER in text:
        raise ValueRefused(
            _("%(marker)s stands for a secret that is kept hidden: replace the whole value, or leave it.")
            % {"marker": MARKER}
        )
    return READERS[kind](text.replace("\r\n", "\n"))


def as_json(value: Any) -> str:
    """The value as JSON for reading and editing, its text as it is and not escaped."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def same(one: Any, other: Any) -> bool:
    """Whether both are the same JSON value: 1 is neither 1.0 nor true, and the order of keys is none."""
    return _canonical(one) == _canonical(other)


def holds_secret(value: Any) -> bool:
    """Whether something in the value was redacted."""
    return MARKER in json.dumps(value, ensure_ascii=False)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True).replace("\\r\\n", "\\n")


def _is_line(item: Any) -> bool:
    return isinstance(item, str) and item == item.strip() and item != "" and len(item.splitlines()) == 1


def _whole_number(text: str) -> int:
    text = text.strip()
    if not WHOLE_NUMBER.fullmatch(text) or len(text) > MOST_DIGITS:
        raise ValueRefused(_("This must be a whole number. For anything else, use its JSON field."))
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueRefused(_("This must be a number, such as 0.5. For anything else, use its JSON field."))
    return number


def _yes_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueRefused(_("This must be true or false. For anything else, use its JSON field."))
    return text == "true"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = {"what": error.msg, "line": error.lineno, "column": error.colno}
        raise ValueRefused(
            _("This is no JSON: %(what)s at line %(line)d, column %(column)d.") % where
        ) from None
    except (ValueError, RecursionError):
        raise ValueRefused(
            _("This is no JSON that can be kept: a number or the nesting is too large.")
        ) from None
    if _depth(value) > MOST_DEPTH:
        raise ValueRefused(_("This nests too deep: %(most)d levels at most.") % {"most": MOST_DEPTH})
    if MARKER in json.dumps(value, ensure_ascii=False):
        # Escapes could have hidden it from the look at the text.
        raise ValueRefused(_("%(marker)s cannot be a value's text.") % {"marker": MARKER})
    if _holds_infinity(value):
        raise ValueRefused(_("A number in this JSON is too large."))
    return value


def _no_constant(name: str) -> None:
    raise json.JSONDecodeError(_("%(name)s is not part of JSON") % {"name": name}, "", 0)


def _depth(value: Any) -> int:
    """How deep lists and dictionaries nest, counted level by level."""
    depth, level = 0, [value]
    while level:
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        depth += 1
    return depth


def _holds_infinity(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return True
    return False


READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.WHOLE_NUMBER: _whole_number,
    Kind.NUMBER: _number,
    Kind.YES_NO: _yes_no,
    Kind.LIST: _lines,
    Kind.JSON: _json,
}
