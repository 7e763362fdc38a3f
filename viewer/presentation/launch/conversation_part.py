"""The part of a fork page for an entry of the state that is a list of messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField
from django.utils.translation import gettext as _

from viewer.engines.planning.editable import Editable
from viewer.engines.protocol import Contents
from viewer.forms.launch.messages import (
    MessageForm,
    MessageForms,
    ModesForm,
    content_text,
    fits_form,
    message_forms,
)
from viewer.launching.requests.state_edits import written_messages
from viewer.presentation.launch.edit_parts import first_error
from viewer.redaction.marker import MARKER


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message with its typed edits. ``number`` counts from 1 on the page."""

    number: int
    form: MessageForm
    html_id: str

    @property
    def is_new(self) -> bool:
        return self.form.message is None

    @property
    def role(self) -> str:
        return self.form.message.role if self.form.message else str(self.form["role"].value() or "user")

    @property
    def name(self) -> str:
        """The message's own name and id; either may be missing."""
        message = self.form.message
        return " ".join(part for part in (message.name, message.id) if part) if message else ""

    @property
    def answers_call(self) -> str:
        return self.form.message.answers_call if self.form.message else ""

    @property
    def stored(self) -> str:
        return content_text(self.form.message) if self.form.message else ""

    @property
    def has_calls(self) -> bool:
        """Whether its tool calls are shown: it has some, or is a new message that may have some."""
        return self.is_new or bool(self.form.message and self.form.message.calls)

    @property
    def has_redacted_part(self) -> bool:
        return MARKER in self.stored

    @property
    def rows(self) -> int:
        text = str(self.form["text"].value() or "")
        return min(8, max(1, text.count("\n") + 1, len(text) // 60))

    @property
    def is_changed(self) -> bool:
        return self.form.edit is not None

    @property
    def is_removed(self) -> bool:
        return bool(self.form.edit and self.form.edit.is_removed)

    @property
    def error(self) -> str:
        return first_error(self.form["text"]) or first_error(self.form["calls"]) or self.role_error

    @property
    def role_error(self) -> str:
        return first_error(self.form["role"])


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """The messages of one entry. ``mode`` is the choice of how an edit is written; None if there is none.

    ``value`` is what the edit writes, None if nothing was edited. ``error`` says why it cannot.
    """

    forms: MessageForms
    html_id: str
    mode: BoundField | None
    by_id: bool
    value: list[Any] | None = None
    error: str = ""

    @property
    def name(self) -> str:
        return self.forms.name

    @property
    def messages(self) -> list[MessageView]:
        ids = (f"{self.html_id}-{number}" for number in range(len(self.forms.forms)))
        pairs = enumerate(zip(self.forms.forms, ids, strict=True), 1)
        return [MessageView(number, form, html_id) for number, (form, html_id) in pairs]

    @property
    def changed_ids(self) -> list[str]:
        return [message.html_id for message in self.messages if message.is_changed]

    @property
    def effect(self) -> str:
        """What the edits do to the conversation, with the number of messages before and after."""
        edits = self.forms.edits
        if not edits:
            return _("Unchanged")
        removed = sum(edit.is_removed for edit in edits)
        added = sum(edit.position is None for edit in edits)
        before = len(self.forms.messages)
        counts = {
            "changed": len(edits) - removed - added,
            "removed": removed,
            "added": added,
            "before": before,
            "after": before + added - removed,
        }
        return (
            _("%(changed)d changed, %(removed)d removed, %(added)d added: %(before)d → %(after)d messages")
            % counts
        )


def conversation_parts(
    data: Any, contents: Contents, edited: Editable, modes: ModesForm
) -> list[ConversationPart]:
    """The part of each conversation that is short enough, in its initial state if ``data`` is None."""
    state, found = edited.state or {}, []
    for number, name in enumerate(conversations_in(edited)):
        forms = message_forms(data, name, edited.conversations[name])
        by_id = modes.adds(name)
        value, error = written_messages(contents, state[name], forms.edits, by_id=by_id)
        field = f"mode:{name}"
        mode = modes[field] if field in modes.fields else None
        if error and mode is not None:
            modes.add_error(field, error)
        found.append(ConversationPart(forms, f"messages-{number}", mode, by_id, value, error))
    return found


def conversations_in(edited: Editable) -> list[str]:
    """The names of the entries whose messages are edited one by one."""
    return [name for name, messages in edited.conversations.items() if fits_form(messages)]


def without_conversations(edited: Editable) -> Mapping[str, Any]:
    """The entries of the state that have a field of their own."""
    names = set(conversations_in(edited))
    return {name: value for name, value in (edited.state or {}).items() if name not in names}
