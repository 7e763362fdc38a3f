"""Edits of what a checkpoint holds: outputs, messages, answers, and entries of the state.

Each is parsed here, for forms and the terminal alike.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid, check_answer, parse_answer
from viewer.engines.editable import EditableMessage, EditableOutput, MessageEdit, OpenQuestion
from viewer.engines.plan import EditRefused
from viewer.engines.protocol import Contents
from viewer.launching.values import (
    InvalidValue,
    ValueKind,
    as_json,
    normal_line_ends,
    parse_untyped,
    parse_value,
    same_value,
)
from viewer.messages.translation import translate

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
