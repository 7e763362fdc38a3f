"""Edits and values, from the arguments of ``fork`` and ``resume``."""

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.editable import EditableMessage, MessageEdit, OpenQuestion
from viewer.engines.plan import Edits
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.edits import (
    INVALID,
    InvalidValue,
    changed_message,
    new_message,
    parse_json,
    parse_object,
    parse_output,
    parse_typed_answer,
    parse_untyped,
    same_value,
    written_messages,
)
from viewer.messages.translation import translate
from viewer.records.audit import is_at_terminal
from viewer.redaction import MARKER
from viewer.validation import (
    MAX_CHARACTERS,
    MAX_DIGITS,
    InvalidInput,
    content_of,
    quoted,
    shortened,
    text_value,
)

# Values of options: texts, files and JSON.


Parsed = TypeVar("Parsed")
# Bytes of the file of a value.
MAX_FILE_BYTES = 16 * 1024 * 1024


def read_text(text: str) -> str:
    """The text, or at a terminal the content of the file that it names after an @. Raises CommandError."""
    if not text.startswith("@") or not is_at_terminal():
        return text
    try:
        return content_of(text[1:], MAX_FILE_BYTES).decode()
    except InvalidInput as error:
        raise CommandError(str(error.of("@FILE"))) from None
    except UnicodeDecodeError as error:
        raise CommandError(
            _("%(file)s cannot be read: %(error)s") % {"file": quoted(text[1:]), "error": error.reason}
        ) from None


def typed_text(text: str) -> str:
    """The text, or at a terminal for - that of standard input. Raises CommandError if it cannot be read."""
    if text != "-" or not is_at_terminal():
        return text
    try:
        return text_value(sys.stdin.read(MAX_CHARACTERS + 1), MAX_CHARACTERS)
    except InvalidInput as error:
        raise CommandError(str(error.of(_("The standard input")))) from None
    except UnicodeDecodeError as error:
        raise CommandError(_("The standard input cannot be read: %s") % error.reason) from None


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE. Raises CommandError."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise CommandError(
            _("%(option)s needs NAME=VALUE, not %(text)s.") % {"option": option, "text": quoted(text)}
        )
    return name, value


def parsed(option: str, parse: Callable[[Any], Parsed], text: Any) -> Parsed:
    """What ``parse`` returns. Raises CommandError that begins with the option for an invalid text."""
    try:
        return parse(text)
    except INVALID as invalid:
        raise CommandError(f"{option}: {translate(invalid)}{_hint(text, parse)}") from None


def _hint(text: Any, parse: Callable[[Any], Any]) -> str:
    """How a text is written that begins like JSON, if that may be what is wrong."""
    is_answer = isinstance(parse, partial) and parse.func is parse_typed_answer
    is_like_json = parse is parse_untyped or (is_answer and text.lstrip()[:1] in ("{", "[", '"'))
    if not is_like_json or MARKER in text:
        return ""
    return " " + _("A text is written in quotes: %s") % json.dumps(shortened(text), ensure_ascii=False)


# Edits of messages, from ``--message``.


# The operations, each with the keys that it may have.
OPERATIONS = {
    "edit": {"content", "tool_calls"},
    "remove": set[str](),
    "add": {"content", "tool_calls", "tool_call_id", "before"},
}


def written_conversations(
    contents: Contents, texts: Sequence[str], replaced: Collection[str]
) -> dict[str, Any]:
    """What the edits of messages write to each channel. Raises CommandError.

    Channels that are ``replaced`` get all messages, others only what changes, by its id.
    """
    given_by_name: dict[str, list[Any]] = {}
    for text in texts:
        name, value = pair_of(text, "--message")
        given = parsed("--message", parse_json, read_text(value))
        given_by_name.setdefault(name, []).extend(given if isinstance(given, list) else [given])
    if not given_by_name:
        return {}
    editable = engine_of(contents).editable(contents)
    found = {}
    for name, operations in given_by_name.items():
        messages = editable.conversations.get(name)
        if messages is None:
            raise CommandError(_("--message: %(name)s is not a list of messages.") % {"name": name})
        edits = message_edits(operations, messages, f"--message {name}")
        stored = (editable.state or {}).get(name)
        found[name], error = written_messages(contents, stored, edits, by_id=name not in replaced)
        if error:
            raise CommandError(f"--message {name}: {error}")
    return found


def message_edits(
    operations: Any, messages: Sequence[EditableMessage], option: str = "--message"
) -> list[MessageEdit]:
    """The edits of messages that ``--message`` names: one operation, or a list. Raises CommandError."""
    try:
        given = operations if isinstance(operations, list) else [operations]
        return [edit for one in given if (edit := _edit(one, messages))]
    except InvalidValue as invalid:
        raise CommandError(f"{option}: {invalid}") from None


def _edit(given: Any, messages: Sequence[EditableMessage]) -> MessageEdit | None:
    """One operation; None if it changes nothing. Raises CommandError and InvalidValue."""
    named = [name for name in OPERATIONS if isinstance(given, dict) and name in given]
    if len(named) != 1 or not set(given) <= {named[0], *OPERATIONS[named[0]]}:
        raise CommandError(
            _("--message needs one of edit, remove and add, not %(value)s.") % {"value": given}
        )
    operation = named[0]
    if operation == "add":
        before = _stored(given["before"], messages).position if "before" in given else None
        call = str(given.get("tool_call_id", ""))
        content, calls = given.get("content", ""), given.get("tool_calls", [])
        return new_message(given["add"], content, calls, call, before)
    stored = _stored(given[operation], messages)
    if operation == "remove":
        return MessageEdit(stored.position, is_removed=True)
    content, calls = given.get("content", stored.content), given.get("tool_calls", list(stored.calls))
    return changed_message(stored, content, calls)


def _stored(wanted: Any, messages: Sequence[EditableMessage]) -> EditableMessage:
    """The message at a position from 1, or with an id. Raises CommandError."""
    found: Mapping[Any, EditableMessage] = {
        **{one.position + 1: one for one in messages},
        **{one.id: one for one in messages if one.id},
    }
    if isinstance(wanted, bool) or not isinstance(wanted, int | str) or wanted not in found:
        raise CommandError(_("--message: there is no message %(wanted)s.") % {"wanted": wanted})
    return found[wanted]


# Edits, from the arguments of ``fork`` and ``resume``.


# The id of an interrupt.
INTERRUPT = re.compile("[0-9a-f]{32}")


def edits_of(options: Mapping[str, Any], contents: Contents) -> Edits:
    """The edits, each value with its JSON type. Raises CommandError."""
    outputs = _outputs(options["output"], contents)
    inputs = inputs_of(options)
    engine = engine_of(contents)
    can_be_same = kind_of(engine, contents.kind).can_add_inputs
    stored = (engine.editable(contents).inputs or {}) if can_be_same else {}
    return Edits(
        # A value that it has already is not a change, so nothing becomes stale.
        inputs={
            name: value
            for name, value in inputs.items()
            if name not in stored or not same_value(value, stored[name])
        },
        outputs={unit: value for unit, value in outputs.items() if value is not None},
        state=_state(options, contents),
        again=frozenset(unit_named(contents, name) for name in options["again"]),
        keep=frozenset(unit_named(contents, name) for name in options["keep"]),
        replace=frozenset(options["replace"]),
        as_node=options["as_node"] or "",
        answers=answers_of(
            options["answer"], engine.editable(contents).questions if options["answer"] else ()
        ),
    )


def _state(options: Mapping[str, Any], contents: Contents) -> dict[str, Any] | None:
    """The values of ``--state``, and the conversations that ``--message`` edits. Raises CommandError."""
    state = None if options["state"] is None else state_of(options["state"])
    messages = written_conversations(contents, options["message"], options["replace"])
    if both := sorted(messages.keys() & (state or {}).keys()):
        raise CommandError(_("%(name)s is in both --state and --message.") % {"name": both[0]})
    return {**(state or {}), **messages} if messages else state


def answers_of(texts: Sequence[str], questions: Sequence[OpenQuestion]) -> dict[str, Any]:
    """The answers by an interrupt's id; one without an id is under an empty one. Raises CommandError.

    An answer is of the type that its question's schema names, if it has one.
    """
    asked = {one.id: one for one in questions}
    if len(questions) == 1:
        asked[""] = questions[0]
    found: dict[str, Any] = {}
    for text in texts:
        identifier, mark, value = text.partition("=")
        has_id = bool(mark) and INTERRUPT.fullmatch(identifier) is not None
        name, given = (identifier, value) if has_id else ("", text)
        found[name] = parsed("--answer", partial(parse_typed_answer, asked.get(name)), given)
    return found


def inputs_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``--input``, each with its JSON type. Raises CommandError."""
    return named_values(options["input"], "--input", from_files=False)


def named_values(texts: Sequence[str], option: str, *, from_files: bool = True) -> dict[str, Any]:
    """The values of an option that is given as KEY=JSON, or as KEY=@FILE if ``from_files``.

    Raises CommandError.
    """
    pairs = [pair_of(text, option) for text in texts]
    return {
        name: parsed(f"{option} {name}", parse_untyped, read_text(text) if from_files else text)
        for name, text in pairs
    }


def unit_named(contents: Contents, name: str) -> str:
    """The id of the unit with this number; any other text is an id."""
    if not name.isascii() or not name.isdigit():
        return name
    engine = engine_of(contents)
    units = engine.units_of(contents)
    if len(name) > MAX_DIGITS or not 1 <= int(name) <= len(units):
        unit = _(kind_of(engine, contents.kind).unit_label)
        raise CommandError(
            _("There is no %(unit)s %(name)s: this checkpoint has %(count)d.")
            % {"unit": unit, "name": name, "count": len(units)}
        )
    return units[int(name) - 1].id


def _outputs(texts: Sequence[str], contents: Contents) -> dict[str, Any]:
    """The values of ``--output`` by unit, None for the stored one. Raises CommandError."""
    stored = {one.unit: one for one in engine_of(contents).editable(contents).outputs}
    found = {}
    for name, text in (pair_of(text, "--output") for text in texts):
        unit = unit_named(contents, name)
        found[unit] = parsed(f"--output {name}", partial(parse_output, stored.get(unit)), read_text(text))
    return found


def state_of(text: str) -> dict[str, Any]:
    """The value of ``--state``. Raises CommandError."""
    return parsed("--state", parse_object, read_text(text))
