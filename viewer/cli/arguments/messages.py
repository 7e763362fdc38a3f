"""Edits of messages, from ``--message``."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli.arguments.values import json_value, pair_of, read_text
from viewer.engines import engine_of
from viewer.engines.planning.editable import EditableMessage, MessageEdit
from viewer.engines.protocol import Contents
from viewer.launching.requests.state_edits import written_messages

# The operations, each with the keys that it may have.
OPERATIONS = {
    "edit": {"content", "tool_calls"},
    "remove": set[str](),
    "add": {"content", "tool_calls", "tool_call_id", "before"},
}
ROLES = ("user", "assistant", "system", "tool")


def written_conversations(
    contents: Contents, texts: Sequence[str], replaced: Collection[str]
) -> dict[str, Any]:
    """What the edits of messages write to each channel. Raises CommandError.

    Channels that are ``replaced`` get all messages, others only what changes, by its id.
    """
    given_by_name: dict[str, list[Any]] = {}
    for text in texts:
        name, value = pair_of(text, "--message")
        given = json_value(read_text(value), "--message")
        given_by_name.setdefault(name, []).extend(given if isinstance(given, list) else [given])
    if not given_by_name:
        return {}
    editable = engine_of(contents).editable(contents)
    found = {}
    for name, operations in given_by_name.items():
        messages = editable.conversations.get(name)
        if messages is None:
            raise CommandError(_("--message: %(name)s is not a list of messages.") % {"name": name})
        edits = [_edit(one, messages) for one in operations]
        stored = (editable.state or {}).get(name)
        found[name], error = written_messages(contents, stored, edits, by_id=name not in replaced)
        if error:
            raise CommandError(f"--message {name}: {error}")
    return found


def _edit(given: Any, messages: Sequence[EditableMessage]) -> MessageEdit:
    """One operation. Raises CommandError."""
    named = [name for name in OPERATIONS if isinstance(given, dict) and name in given]
    if len(named) != 1 or not set(given) <= {named[0], *OPERATIONS[named[0]]}:
        raise CommandError(
            _("--message needs one of edit, remove and add, not %(value)s.") % {"value": given}
        )
    operation = named[0]
    content, calls = given.get("content", ""), given.get("tool_calls", ())
    if operation == "add":
        if given["add"] not in ROLES:
            raise CommandError(_("--message adds user, assistant, system or tool messages."))
        before = _stored(given["before"], messages).position if "before" in given else None
        call = str(given.get("tool_call_id", ""))
        return MessageEdit(None, given["add"], content, calls, call, before=before)
    stored = _stored(given[operation], messages)
    if operation == "remove":
        return MessageEdit(stored.position, is_removed=True)
    return MessageEdit(
        stored.position,
        content=given.get("content", stored.content),
        calls=given.get("tool_calls", stored.calls),
    )


def _stored(wanted: Any, messages: Sequence[EditableMessage]) -> EditableMessage:
    """The message at a position from 1, or with an id. Raises CommandError."""
    found: Mapping[Any, EditableMessage] = {
        **{one.position + 1: one for one in messages},
        **{one.id: one for one in messages if one.id},
    }
    if isinstance(wanted, bool) or not isinstance(wanted, int | str) or wanted not in found:
        raise CommandError(_("--message: there is no message %(wanted)s.") % {"wanted": wanted})
    return found[wanted]
