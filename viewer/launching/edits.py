"""Edits of what a checkpoint holds: outputs, messages, answers, and entries of the state.

Each is parsed here, for forms and the terminal alike.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid, check_answer, parse_answer
from viewer.engines.plan import EditableMessage, EditableOutput, EditRefused, MessageEdit, OpenQuestion
from viewer.engines.protocol import Contents
from viewer.messages.translation import translate
from viewer.redaction import MARKER
from viewer.validation import MAX_CHARACTERS, InvalidInput, text_value

# Limits of one edit: levels of nested JSON, digits of a whole number.
MAX_DEPTH = 50
MAX_DIGITS = 300
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class ValueKind(StrEnum):
    """The type of a value, which decides how its text is written."""

    TEXT = "text"
    WHOLE_NUMBER = "whole_number"
    NUMBER = "number"
    YES_NO = "yes_no"
    LIST = "list"
    JSON = "json"


class InvalidValue(ValueError):
    """The text is not a valid value. The translated message says what is valid."""


# What the functions that parse a typed text raise. ``translate`` returns the message of either.
INVALID = (InvalidInput, InvalidValue)


def kind_of(value: Any) -> ValueKind:
    """The kind whose text parses back to the same value."""
    if isinstance(value, bool):
        return ValueKind.YES_NO
    if isinstance(value, str):
        # HTML cannot contain a NUL character, JSON can escape it.
        return ValueKind.JSON if "\0" in value else ValueKind.TEXT
    if isinstance(value, int):
        return ValueKind.WHOLE_NUMBER
    if isinstance(value, float) and math.isfinite(value):
        return ValueKind.NUMBER
    if isinstance(value, list) and value and all(_is_line(item) for item in value):
        return ValueKind.LIST
    return ValueKind.JSON


def text_of(value: Any, kind: ValueKind) -> str:
    """The value as text for editing."""
    if kind is ValueKind.TEXT:
        return str(value)
    if kind is ValueKind.LIST:
        return "\n".join(value)
    if kind is ValueKind.YES_NO:
        return "true" if value else "false"
    return repr(value) if kind in (ValueKind.WHOLE_NUMBER, ValueKind.NUMBER) else as_json(value)


def parse_value(text: str, kind: ValueKind) -> Any:
    """Return the value of this kind that the text represents.

    Raises InvalidInput for a text that is too long or not UTF-8, and InvalidValue for one that is not of this
    kind or contains the marker of a redacted secret.
    """
    if MARKER in text_value(text, MAX_CHARACTERS):
        raise InvalidValue(
            _("%(marker)s marks a redacted secret: replace the whole value, or leave it unchanged.")
            % {"marker": MARKER}
        )
    return PARSERS[kind](text.replace("\r\n", "\n"))


def parse_untyped(text: str) -> Any:
    """The JSON value of a text, or the text if it is not JSON, such as a file name.

    Raises InvalidValue for an object, list or quoted text that is not valid JSON.
    """
    if text.lstrip()[:1] not in {"{", "[", '"'}:
        try:
            json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return parse_value(text, ValueKind.TEXT)
    return parse_value(text, ValueKind.JSON)


def parse_json(text: str) -> Any:
    """The JSON value of a text. Raises InvalidInput and InvalidValue."""
    return parse_value(text, ValueKind.JSON)


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object of a text. Raises InvalidValue."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise InvalidValue(_('This must be a JSON object, such as {"name": "value"}.'))
    return value


def parse_values(text: str, kind: ValueKind) -> list[Any]:
    """The values in a text: a JSON list, or one value per line. Raises InvalidValue."""
    text = text.strip()
    if not text:
        return []
    if text.startswith("[") or kind in (ValueKind.LIST, ValueKind.JSON):
        values = parse_value(text, ValueKind.JSON)
        if not isinstance(values, list):
            raise InvalidValue(_("This must be a JSON list, with a value for each branch."))
        return values
    return [parse_value(line.strip(), kind) for line in text.splitlines() if line.strip()]


def as_json(value: Any) -> str:
    """The value as indented JSON without escaped letters."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def same_value(one: Any, other: Any) -> bool:
    """Whether both are the same JSON value: 1 differs from 1.0 and true; the order of keys is ignored."""
    return canonical(one) == canonical(other)


def has_redacted_part(value: Any) -> bool:
    """Whether a part of the value was redacted."""
    return MARKER in json.dumps(value, ensure_ascii=False)


def is_utf8(value: Any) -> bool:
    """Whether all texts of a JSON value can be written as UTF-8: none has half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def normal_line_ends(text: str) -> str:
    r"""The text with ``\n`` as its line end. Browsers send ``\r\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def canonical(value: Any) -> str:
    """The same text for the same JSON value, however its keys are ordered and its lines end."""
    # An escaped backslash, which is no part of an escaped line end, becomes a character that JSON never has.
    text = json.dumps(value, sort_keys=True).replace("\\\\", "\0")
    return text.replace("\\r\\n", "\\n")


def _is_line(item: Any) -> bool:
    return isinstance(item, str) and item == item.strip() and item != "" and len(item.splitlines()) == 1


def _whole_number(text: str) -> int:
    text = text.strip()
    if not WHOLE_NUMBER.fullmatch(text) or len(text) > MAX_DIGITS:
        raise InvalidValue(_("This must be a whole number. For anything else, use its JSON field."))
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValue(_("This must be a number, such as 0.5. For anything else, use its JSON field."))
    return number


def _yes_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValue(_("This must be true or false. For anything else, use its JSON field."))
    return text == "true"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        position = {"what": error.msg, "line": error.lineno, "column": error.colno}
        raise InvalidValue(
            _("This is not valid JSON: %(what)s at line %(line)d, column %(column)d.") % position
        ) from None
    except (ValueError, RecursionError):
        raise InvalidValue(_("This JSON cannot be stored: a number or the nesting is too large.")) from None
    if _depth(value) > MAX_DEPTH:
        raise InvalidValue(
            _("This is nested too deeply. The limit is %(most)d levels.") % {"most": MAX_DEPTH}
        )
    if not is_utf8(value):
        raise InvalidValue(_("A text in this JSON cannot be written as UTF-8."))
    if has_redacted_part(value):
        # JSON escapes can hide the marker from a search in the text.
        raise InvalidValue(_("%(marker)s cannot be a value's text.") % {"marker": MARKER})
    if _has_infinity(value):
        raise InvalidValue(_("A number in this JSON is too large."))
    return value


def _refuse_constant(name: str) -> None:
    raise json.JSONDecodeError(_("%(name)s is not part of JSON") % {"name": name}, "", 0)


def _depth(value: Any) -> int:
    """The number of nested levels of lists and dictionaries."""
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


def _has_infinity(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return True
    return False


PARSERS: dict[ValueKind, Callable[[str], Any]] = {
    ValueKind.TEXT: str,
    ValueKind.WHOLE_NUMBER: _whole_number,
    ValueKind.NUMBER: _number,
    ValueKind.YES_NO: _yes_no,
    ValueKind.LIST: _lines,
    ValueKind.JSON: _json,
}


# Outputs of finished units.


def output_text(output: EditableOutput) -> str:
    """The output as the text of its editor."""
    return output.text if output.value is None else as_json(output.value)


def parse_output(output: EditableOutput | None, text: str) -> Any:
    """The edit of an output: a text, or ``{"json": value}``; None if it is the stored one.

    The checkpoint has no such output if ``output`` is None. Raises InvalidInput and InvalidValue.
    """
    if output and normal_line_ends(text) == normal_line_ends(output_text(output)):
        return None
    if output is None or output.value is None:
        value = parse_value(text, ValueKind.TEXT)
        if not value.strip():
            raise InvalidValue(_("An output cannot be empty. To get a new one, run it again."))
        return value
    value = parse_value(text, ValueKind.JSON)
    if isinstance(output.value, dict) and not isinstance(value, dict):
        raise InvalidValue(_("This output must be a JSON object, in { }."))
    return None if same_value(value, output.value) else {"json": value}


# Messages of a conversation.


ROLES = {
    "user": gettext_lazy("user"),
    "assistant": gettext_lazy("assistant"),
    "system": gettext_lazy("system"),
    "tool": gettext_lazy("tool"),
}


def parse_calls(value: Any) -> list[Any]:
    """The tool calls of a message. Raises InvalidValue."""
    if not isinstance(value, list) or not all(isinstance(one, dict) and one.get("name") for one in value):
        raise InvalidValue(_('Tool calls are a JSON list, such as [{"name": "…", "args": {}}].'))
    return value


def new_message(
    role: str, content: Any, calls: Any, answers_call: str = "", before: int | None = None
) -> MessageEdit | None:
    """The message that is added; None if it is empty. Raises InvalidValue."""
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidValue(_("Choose one of these: %(choices)s.") % {"choices": ", ".join(ROLES)})
    calls = parse_calls(calls)
    return MessageEdit(None, role, content, calls, answers_call, before=before) if content or calls else None


def changed_message(stored: EditableMessage, content: Any, calls: Any) -> MessageEdit | None:
    """The edit of a message; None if it is the stored one. Raises InvalidValue."""
    if same_value([content, calls], [stored.content, list(stored.calls)]):
        return None
    return MessageEdit(stored.position, content=content, calls=parse_calls(calls))


def written_messages(
    contents: Contents, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool
) -> tuple[Any, str]:
    """The value that edits of a conversation write, or None without edits; and an error, or an empty text."""
    if not edits:
        return None, ""
    try:
        return engine_of(contents).edited_messages(stored, edits, by_id=by_id), ""
    except EditRefused as refused:
        return None, translate(refused)


# Answers to what a checkpoint waits for.


def parse_typed_answer(question: OpenQuestion | None, text: str, kind: ValueKind | None = None) -> Any:
    """The value of an answer, of the type that the question's schema names, if it has one.

    Without a ``kind``, it is JSON if its text is. Raises InvalidInput and InvalidValue.
    """
    value = parse_untyped(text) if kind is None else parse_value(text, kind)
    if question is None or not question.schema:
        return value
    try:
        if kind is ValueKind.JSON:
            check_answer(value, question.schema)
            return value
        return parse_answer(text, question.schema)
    except AnswerInvalid as invalid:
        raise InvalidValue(translate(invalid)) from invalid


def decoded(value: Any) -> Any:
    """The JSON value of a text that is JSON; any other value unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


# Entries of the state.


def added_value(stored: Any, typed: Any) -> Any:
    """What the reducer receives: the items that a typed list adds to the stored one, else the typed value."""
    if isinstance(stored, list) and isinstance(typed, list) and same_value(typed[: len(stored)], stored):
        return typed[len(stored) :]
    return typed
