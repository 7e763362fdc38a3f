"""Edits, removes and adds single messages of a thread."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viewer.engines.langgraph.contents.conversation import message_of
from viewer.engines.langgraph.format.super_steps import mapping, sequence
from viewer.engines.planning.editable import EditableMessage, MessageEdit
from viewer.engines.planning.plan import EditRefused
from viewer.redaction.marker import MARKER

TYPE, FIELDS = "__type__", "fields"
MODULE = "langchain_core.messages"
# The class of a new message, by its role.
CLASSES = {
    "user": f"{MODULE}.human.HumanMessage",
    "assistant": f"{MODULE}.ai.AIMessage",
    "system": f"{MODULE}.system.SystemMessage",
    "tool": f"{MODULE}.tool.ToolMessage",
}
REMOVE = f"{MODULE}.modifier.RemoveMessage"


def editable_messages(value: Any) -> tuple[EditableMessage, ...]:
    """The messages of a channel; empty if it contains anything other than LangChain's messages."""
    found = [_editable(position, one) for position, one in enumerate(sequence(value))]
    messages = [one for one in found if one is not None]
    return tuple(messages) if len(messages) == len(found) else ()


def _editable(position: int, value: Any) -> EditableMessage | None:
    shown, fields = message_of(value), mapping(value).get(FIELDS)
    if shown is None or not isinstance(fields, dict) or not str(value.get(TYPE)).startswith(MODULE):
        return None
    return EditableMessage(
        position,
        shown.id,
        shown.role,
        shown.name,
        fields.get("content"),
        tuple(sequence(fields.get("tool_calls"))),
        shown.answers_call,
    )


def edited_messages(stored: Any, edits: Sequence[MessageEdit], *, by_id: bool) -> list[Any]:
    """What an update writes to a channel with messages: all messages, or only the changed ones if ``by_id``.

    The ids and the order stay the same. A new message can be inserted before another only if all messages are
    written. Raises EditRefused.
    """
    if by_id and any(edit.before is not None for edit in edits):
        raise EditRefused("langgraph.message_place_by_id")
    changed = {edit.position: edit for edit in edits if edit.position is not None}
    new = [edit for edit in edits if edit.position is None]
    written: list[Any] = []
    for position, message in enumerate(sequence(stored)):
        edit = changed.get(position)
        written += [_new(one) for one in new if one.before == position]
        if by_id and edit is not None:
            removal = {TYPE: REMOVE, FIELDS: {"id": _id_of(message)}}
            written.append(removal if edit.is_removed else _changed(message, edit))
        elif not by_id and (edit is None or not edit.is_removed):
            written.append(message if edit is None else _changed(message, edit))
    written += [_new(one) for one in new if one.before is None]
    if MARKER in json.dumps(written, ensure_ascii=False):
        raise EditRefused("langgraph.message_redacted")
    return written


def _changed(message: Mapping[str, Any], edit: MessageEdit) -> dict[str, Any]:
    fields = {**message[FIELDS], "content": edit.content}
    if "tool_calls" in fields and list(fields["tool_calls"] or ()) != list(edit.calls):
        fields["tool_calls"] = list(edit.calls)
        # Remove the provider's own copy of the calls, which would be sent instead of the edited calls.
        extra = mapping(fields.get("additional_kwargs"))
        fields["additional_kwargs"] = {key: value for key, value in extra.items() if key != "tool_calls"}
    return {TYPE: message[TYPE], FIELDS: fields}


def _id_of(message: Mapping[str, Any]) -> str:
    identifier = str(message[FIELDS].get("id") or "")
    if not identifier or MARKER in identifier:
        raise EditRefused("langgraph.message_without_id")
    return identifier


def _new(edit: MessageEdit) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": edit.content}
    if edit.role == "assistant" and edit.calls:
        fields["tool_calls"] = list(edit.calls)
    if edit.role == "tool":
        fields["tool_call_id"] = edit.answers_call
    return {TYPE: CLASSES.get(edit.role, CLASSES["user"]), FIELDS: fields}
