"""The forms of a conversation: a form for each message, and new ones."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.editable import EditableMessage, MessageEdit
from viewer.launching.edits import ROLES, changed_message, new_message, parse_calls
from viewer.launching.values import ValueKind, as_json, normal_line_ends, parse_json, parse_value
from viewer.web.forms.fields import parsed, valid_values

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


def content_text(message: EditableMessage) -> str:
    """The content as text, as JSON if it is a list of parts."""
    return message.content if isinstance(message.content, str) else as_json(message.content)


def calls_text(calls: Sequence[Any]) -> str:
    """The calls of tools as JSON; empty if there are none."""
    return as_json(list(calls)) if calls else ""


class ModeField(forms.ChoiceField):
    """How an edit of an entry with this ``reducer`` is written; empty if its name is unknown."""

    def __init__(self, reducer: str, **options: Any) -> None:
        super().__init__(**options)
        self.reducer = reducer


class ModesForm(forms.Form):
    """For each entry with a reducer: whether an edit replaces its value or goes through the reducer.

    ``reducers`` has the reducer's name by entry, None where it is unknown.
    """

    def __init__(self, data: Any, reducers: Mapping[str, str | None], by_id: Sequence[str] = ()) -> None:
        super().__init__(data)
        self.by_id = set(by_id)
        for number, (name, reducer) in enumerate(reducers.items()):
            add = _("Add with %(reducer)s") % {"reducer": reducer or _("its reducer")}
            choices = [("replace", _("Replace the value")), ("add", add)]
            self.fields[f"mode:{name}"] = ModeField(
                reducer or "",
                required=False,
                choices=choices,
                initial="add" if name in self.by_id else "replace",
                label=_("Edit of %(name)s") % {"name": name},
                widget=forms.Select(attrs={"id": f"mode-{number}"}),
            )

    def adds(self, name: str) -> bool:
        """Whether an edit of this entry goes through its reducer."""
        field = self.fields.get(f"mode:{name}")
        if field is None:
            return False
        return bool((valid_values(self).get(f"mode:{name}") or field.initial) == "add")
