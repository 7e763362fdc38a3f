"""The messages of an entry of the state: their forms, and the part of a fork page with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.forms import BaseFormSet, BoundField, formset_factory
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.editable import Editable, EditableMessage, MessageEdit
from viewer.engines.protocol import Contents
from viewer.launching.edits import (
    ROLES,
    ValueKind,
    as_json,
    changed_message,
    new_message,
    normal_line_ends,
    parse_calls,
    parse_json,
    parse_value,
    written_messages,
)
from viewer.redaction import MARKER
from viewer.web.fields import parsed, valid_values
from viewer.web.launch.edits import ModesForm, first_error

# The forms of a conversation: a form for each message, and new ones.


# A longer conversation is edited as one JSON value.
MAX_MESSAGES = 200
MAX_BYTES = 600_000
# The name of the button that adds a message; its value is the entry's name.
ADD = "add-message"


class MessageForm(forms.Form):
    """One message. ``message`` is the stored one, None for a new one."""

    role = forms.ChoiceField(required=False, choices=tuple(ROLES.items()), label=gettext_lazy("Role"))
    text = forms.CharField(
        required=False, strip=False, label=gettext_lazy("Content"), widget=forms.Textarea(attrs={"rows": 1})
    )
    calls = forms.CharField(
        required=False, label=gettext_lazy("Tool calls"), widget=forms.Textarea(attrs={"rows": 1})
    )
    answers_call = forms.CharField(required=False, label=gettext_lazy("Answers call"))
    # The position of the stored message that a new one comes before; empty for the end.
    before = forms.ChoiceField(required=False, choices=[("", gettext_lazy("at the end"))])
    remove = forms.BooleanField(required=False, label=gettext_lazy("Remove"))

    def __init__(
        self, *args: Any, message: EditableMessage | None = None, count: int = 0, **options: Any
    ) -> None:
        self.message = message
        super().__init__(*args, **options)
        positions = [(str(at), _("before message %(n)d") % {"n": at + 1}) for at in range(count)]
        before = cast(forms.ChoiceField, self.fields["before"])
        before.choices = [("", _("at the end")), *positions]

    @property
    def is_text(self) -> bool:
        return self.message is None or isinstance(self.message.content, str)

    def clean_text(self) -> Any:
        text = normal_line_ends(self.cleaned_data["text"])
        if self.message and self.add_prefix("text") not in self.data:
            return self.message.content
        if self.message and text == normal_line_ends(content_text(self.message)):
            return self.message.content
        return parsed(lambda: parse_value(text, ValueKind.TEXT if self.is_text else ValueKind.JSON))

    def clean_calls(self) -> list[Any]:
        text = self.cleaned_data["calls"].strip()
        stored = list(self.message.calls) if self.message else []
        if self.add_prefix("calls") not in self.data or text == calls_text(stored).strip():
            return stored
        return parsed(lambda: parse_calls(parse_json(text))) if text else []

    @property
    def edit(self) -> MessageEdit | None:
        """What was typed; None if nothing was."""
        values = valid_values(self)
        if not values or self.errors:
            return None
        content, calls, is_removed = values["text"], values["calls"], values["remove"]
        if self.message is None:
            before = int(values["before"]) if values["before"] else None
            new = new_message(values["role"] or "user", content, calls, values["answers_call"], before)
            return None if is_removed else new
        if is_removed:
            return MessageEdit(self.message.position, content=content, calls=calls, is_removed=True)
        return changed_message(self.message, content, calls)


class MessageForms(BaseFormSet):  # type: ignore[type-arg]
    """The forms of one entry's messages, in their order, then those of new ones."""

    def __init__(self, data: Any, name: str, messages: Sequence[EditableMessage]) -> None:
        self.name, self.messages = name, messages
        prefix = f"messages:{name}"
        total = f"{prefix}-TOTAL_FORMS"
        is_sent = data is not None and total in data
        # Whether the button that adds a message to this conversation was pressed.
        self.is_grown = bool(is_sent and data.get(ADD) == name)
        if self.is_grown and str(data[total]).isdigit():
            data = data.copy()
            data[total] = str(int(data[total]) + 1)
        initial = [initial_of(one) for one in messages]
        super().__init__(data if is_sent else None, prefix=prefix, initial=initial)

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        is_stored = index is not None and index < len(self.messages)
        message = self.messages[index] if is_stored and index is not None else None
        return {"message": message, "count": 0 if message else len(self.messages)}

    @property
    def edits(self) -> list[MessageEdit]:
        """What was typed, in the order of the messages."""
        return [edit for form in self.forms if (edit := form.edit) is not None]


def message_forms(data: Any, name: str, messages: Sequence[EditableMessage]) -> MessageForms:
    """The forms of an entry's messages, first shown if nothing of them was sent."""
    most = 2 * MAX_MESSAGES
    made = formset_factory(MessageForm, formset=MessageForms, extra=0, max_num=most, absolute_max=most)
    return cast(type[MessageForms], made)(data, name, messages)


def fits_form(messages: Sequence[EditableMessage]) -> bool:
    """Whether a form with these messages is not too long to be sent."""
    size = sum(len(content_text(one).encode(errors="replace")) for one in messages)
    return len(messages) <= MAX_MESSAGES and size <= MAX_BYTES


def initial_of(message: EditableMessage) -> dict[str, Any]:
    """The fields of a stored message."""
    return {"role": message.role, "text": content_text(message), "calls": calls_text(message.calls)}


def message_fields(
    name: str, messages: Sequence[EditableMessage], position: int, text: Any, calls: Sequence[Any]
) -> dict[str, str]:
    """The fields of an entry in which the message at this position has another text and other tool calls.

    Empty if there is no such message, or if the entry is edited as one JSON value.
    """
    at = next((at for at, one in enumerate(messages) if one.position == position), None)
    if at is None or not fits_form(messages):
        return {}
    prefix, count = f"messages:{name}", str(len(messages))
    return {
        f"{prefix}-TOTAL_FORMS": count,
        f"{prefix}-INITIAL_FORMS": count,
        f"{prefix}-{at}-text": text if isinstance(messages[at].content, str) else as_json(text),
        f"{prefix}-{at}-calls": calls_text(calls),
    }


def content_text(message: EditableMessage) -> str:
    """The content as text, as JSON if it is a list of parts."""
    return message.content if isinstance(message.content, str) else as_json(message.content)


def calls_text(calls: Sequence[Any]) -> str:
    """The calls of tools as JSON; empty if there are none."""
    return as_json(list(calls)) if calls else ""


# The part of a fork page for an entry of the state that is a list of messages.


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
        """Whether its tool calls are shown: it has some, or may have some."""
        stored = self.form.message
        return stored is None or bool(stored.calls or self.form["calls"].value())

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
