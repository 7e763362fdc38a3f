"""Answers to what a checkpoint or a run waits for, and the messages of conversations, as parts of pages."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.forms import BaseFormSet, BoundField, formset_factory
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.engines import engine_of, plan
from viewer.engines.answer_schema import AnswerInvalid, check_answer
from viewer.engines.protocol import Contents
from viewer.launching import edits
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Question, Run
from viewer.records.run_rows import branch_status
from viewer.redaction import MARKER
from viewer.validation import number_in
from viewer.web.fields import parsed, valid_values
from viewer.web.launch.edits import FieldView, ModesForm, first_error

# Questions of a checkpoint or run with their answers: what a page shows of them, and their form.


@dataclass(frozen=True, slots=True)
class PartView(FieldView):
    """A field of an option with its typed value."""

    part: plan.AnswerField

    @property
    def text(self) -> str:
        return str(self.bound.value() or "")

    @property
    def choices(self) -> list[str]:
        return choice_texts(self.part)

    @property
    def row_count(self) -> int:
        """The number of text lines of its field."""
        return min(max(self.text.count("\n") + 1, len(self.text) // 60 + 1), 8)


@dataclass(frozen=True, slots=True)
class OptionView:
    """An option with its fields."""

    option: plan.AnswerOption
    parts: list[PartView]

    @property
    def sent(self) -> str:
        """The value that is sent; empty if the label is the same."""
        if self.parts or self.option.value == self.option.label:
            return ""
        return json.dumps(self.option.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AnswerView(FieldView):
    """One question with its typed answer."""

    question: plan.OpenQuestion
    choice: BoundField
    type: BoundField
    options: list[OptionView]

    @property
    def chosen(self) -> str:
        return str(self.choice.value() or "")

    @property
    def asks_later(self) -> bool:
        """Whether a person chose to give no answer now."""
        return bool(self.choice.data == "")

    @property
    def given(self) -> str:
        """What was typed or chosen."""
        return str(self.bound.value() or "").strip() or self.chosen

    @property
    def is_typed(self) -> bool:
        """Whether the field for a free answer is initially open."""
        return bool(self.bound.value()) or not self.question.options or bool(self.error)

    @property
    def sweep_name(self) -> str:
        """The name of the field that varies this answer in a sweep's form."""
        return f"vary-answer:{self.question.id}"

    @property
    def complete(self) -> list[OptionView]:
        """The options without fields, which are complete answers."""
        return [one for one in self.options if one.option.is_complete]

    @property
    def plain(self) -> list[OptionView]:
        return [one for one in self.options if not one.parts]

    @property
    def with_fields(self) -> list[OptionView]:
        return [one for one in self.options if one.parts]

    @property
    def all_choices(self) -> str:
        """The options without fields, one per line, in the format of a sweep's form."""
        values = [one.option.value for one in self.complete]
        lines = [_line(value) for value in values]
        # A text that begins with a bracket is parsed as a list of all values.
        return json.dumps(values) if lines and lines[0].startswith("[") else "\n".join(lines)


def _line(value: Any) -> str:
    """The value as a line of a sweep's form: a text unchanged, unless it would be parsed as another value."""
    if isinstance(value, str) and value and value == " ".join(value.split()) and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


TYPES = (
    (edits.ValueKind.TEXT.value, gettext_lazy("text")),
    (edits.ValueKind.JSON.value, gettext_lazy("JSON")),
)


class AnswersForm(forms.Form):
    """For each question: an option with its fields, or a text or JSON value. An empty answer is none.

    If a person has to choose, the choice of no answer is one as well, but no choice is an error.
    """

    def __init__(
        self,
        data: Any,
        questions: Sequence[plan.OpenQuestion],
        must_choose: bool = False,
        initial: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self.must_choose = must_choose
        self.questions = list(questions)
        # The answer that an option makes, by the question's number.
        self._chosen: dict[int, Any] = {}
        for number, question in enumerate(self.questions):
            choices = [(one.label, one.label) for one in question.options]
            self.fields[f"choice:{number}"] = forms.ChoiceField(required=False, choices=[("", ""), *choices])
            self.fields[f"type:{number}"] = forms.ChoiceField(
                required=False, choices=TYPES, initial=edits.ValueKind.TEXT.value, label=gettext_lazy("Type")
            )
            self.fields[f"answer:{number}"] = forms.CharField(
                required=False,
                strip=False,
                label=question.prompt,
                widget=forms.Textarea(attrs={"id": f"answer-{number}"}),
            )
            for position, option in enumerate(question.options):
                for field, one in enumerate(option.fields):
                    self.fields[part_name(number, position, field)] = _part(one, number, position, field)

    def clean(self) -> dict[str, Any]:
        for number, question in enumerate(self.questions):
            name = f"answer:{number}"
            text = self.cleaned_data.get(name) or ""
            kind = edits.ValueKind(self.cleaned_data.get(f"type:{number}") or edits.ValueKind.TEXT)
            if text.strip():
                try:
                    self.cleaned_data[name] = edits.parse_typed_answer(question, text, kind)
                except edits.INVALID as invalid:
                    self.add_error(name, translate(invalid))
                continue
            if self.must_choose and question.options and f"choice:{number}" not in self.data:
                self.add_error(name, _("Choose an answer, or choose to be asked in the inbox."))
            for position, option in enumerate(question.options):
                if option.label == self.cleaned_data.get(f"choice:{number}"):
                    self._choose(number, position, option)
        return self.cleaned_data

    def _choose(self, number: int, position: int, option: plan.AnswerOption) -> None:
        """Make the answer of an option from what was typed into its fields."""
        answer = copy.deepcopy(option.value)
        for field, one in enumerate(option.fields):
            name = part_name(number, position, field)
            try:
                value = _typed(one, self.cleaned_data.get(name) or "")
            except edits.INVALID as invalid:
                self.add_error(name, translate(invalid))
                return
            if value is not plan.MISSING:
                answer = _with_value(answer, one.path, value)
        try:
            if schema := self.questions[number].schema:
                check_answer(answer, schema)
        except AnswerInvalid as invalid:
            paths = [one.path for one in option.fields]
            wrong = paths.index(invalid.path) if invalid.path in paths else None
            name = f"answer:{number}" if wrong is None else part_name(number, position, wrong)
            self.add_error(name, translate(invalid))
            return
        self._chosen[number] = answer

    @property
    def answers(self) -> dict[str, Any]:
        """The answers by the question's id. What was typed counts instead of a choice."""
        values, found = valid_values(self), {}
        for number, question in enumerate(self.questions):
            typed = values.get(f"answer:{number}")
            if typed not in (None, "") and not (isinstance(typed, str) and not typed.strip()):
                found[question.id] = typed
            elif number in self._chosen:
                found[question.id] = self._chosen[number]
        return found

    @property
    def views(self) -> list[AnswerView]:
        """The questions, as a page shows them."""
        return [
            AnswerView(
                self[f"answer:{number}"],
                question,
                self[f"choice:{number}"],
                self[f"type:{number}"],
                [
                    OptionView(option, self._parts(number, position, option))
                    for position, option in enumerate(question.options)
                ],
            )
            for number, question in enumerate(self.questions)
        ]

    def _parts(self, number: int, position: int, option: plan.AnswerOption) -> list[PartView]:
        names = (part_name(number, position, field) for field in range(len(option.fields)))
        return [PartView(self[name], part) for part, name in zip(option.fields, names, strict=True)]

    @property
    def text(self) -> str | None:
        """The answer to the only question, in the runner's format; None if it was not answered."""
        answers = self.answers
        if not self.is_valid() or not answers:
            return None
        (answer,) = answers.values()
        return answer if isinstance(answer, str) and not _is_json(answer) else json.dumps(answer)


def part_name(number: int, position: int, field: int) -> str:
    """The name of a field of an option of a question, by their positions."""
    return f"part:{number}:{position}:{field}"


def _part(one: plan.AnswerField, number: int, position: int, field: int) -> forms.CharField:
    """The field for a part of an answer. Its text has the form of the part's kind."""
    stored = one.stored
    text = "" if stored is plan.MISSING or stored is None else _as_text(stored, edits.ValueKind(one.kind))
    attrs = {"id": f"part-{number}-{position}-{field}"}
    return forms.CharField(
        required=False, strip=False, label=one.label, initial=text, widget=forms.Textarea(attrs=attrs)
    )


def _as_text(value: Any, kind: edits.ValueKind) -> str:
    try:
        return edits.text_of(value, kind)
    except TypeError:
        # A default that is not of the type that its schema names.
        return edits.as_json(value)


def choice_texts(one: plan.AnswerField) -> list[str]:
    """The values that a field chooses from, as texts."""
    if one.kind == edits.ValueKind.YES_NO:
        return ["true", "false"]
    return [value if isinstance(value, str) else edits.as_json(value) for value in one.choices]


def _typed(one: plan.AnswerField, text: str) -> Any:
    """The value of a field; MISSING if nothing is typed that has to be. Raises InvalidValue."""
    if not text.strip() and (one.stored is plan.MISSING or one.choices or one.kind != edits.ValueKind.TEXT):
        if one.is_required:
            raise edits.InvalidValue(_("The answer requires this value."))
        return plan.MISSING
    if one.choices:
        found = [value for value, shown in zip(one.choices, choice_texts(one), strict=True) if shown == text]
        if not found:
            raise edits.InvalidValue(_("Choose one of the values."))
        return found[0]
    return edits.parse_value(text, edits.ValueKind(one.kind))


def _with_value(answer: Any, path: Sequence[str | int], value: Any) -> Any:
    """The answer with a value at the end of a path."""
    if not path:
        return value
    inner = answer
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return answer


def asked_form(question: Question, data: Any = None) -> AnswersForm | None:
    """The form for a question of a run; None if its engine suggests no answers."""
    if question.kind != Question.Kind.INTERRUPT:
        return None
    engine = engine_of(question.job.location)
    asked = engine.asked_question(question.prompt, question.context)
    return AnswersForm(data, [asked]) if asked else None


def answers_form(
    data: Any, edited: plan.Editable, must_choose: bool, chosen: Mapping[str, str] | None = None
) -> AnswersForm | None:
    """The form, in its initial state if ``data`` is None. Returns None if nothing waits for an answer.

    ``chosen`` are the options that the link to the page named, by the field.
    """
    if not edited.questions:
        return None
    if data is None and chosen:
        form = AnswersForm(chosen, edited.questions)
        # An option with fields is not an error before anything was typed.
        return form if form.is_valid() else AnswersForm(None, edited.questions, initial=chosen)
    return AnswersForm(data, edited.questions, must_choose)


def asked_at(checkpoint: Checkpoint, contents: Contents) -> AnswersForm | None:
    """The questions that a checkpoint waits for, without an answer; None if it waits for none."""
    if branch_status(checkpoint) != Run.Status.WAITING:
        return None
    return answers_form(None, engine_of(contents).editable(contents), must_choose=False)


# The forms of a conversation: a form for each message, and new ones.


# A longer conversation is edited as one JSON value.
MAX_MESSAGES = 200
MAX_BYTES = 600_000
# The name of the button that adds a message; its value is the entry's name.
ADD = "add-message"


class MessageForm(forms.Form):
    """One message. ``message`` is the stored one, None for a new one."""

    role = forms.ChoiceField(required=False, choices=tuple(edits.ROLES.items()), label=gettext_lazy("Role"))
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
        self, *args: Any, message: plan.EditableMessage | None = None, count: int = 0, **options: Any
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
        text = edits.normal_line_ends(self.cleaned_data["text"])
        if self.message and self.add_prefix("text") not in self.data:
            return self.message.content
        if self.message and text == edits.normal_line_ends(content_text(self.message)):
            return self.message.content
        return parsed(
            lambda: edits.parse_value(text, edits.ValueKind.TEXT if self.is_text else edits.ValueKind.JSON)
        )

    def clean_calls(self) -> list[Any]:
        text = self.cleaned_data["calls"].strip()
        stored = list(self.message.calls) if self.message else []
        if self.add_prefix("calls") not in self.data or text == calls_text(stored).strip():
            return stored
        return parsed(lambda: edits.parse_calls(edits.parse_json(text))) if text else []

    @property
    def edit(self) -> plan.MessageEdit | None:
        """What was typed; None if nothing was."""
        values = valid_values(self)
        if not values or self.errors:
            return None
        content, calls, is_removed = values["text"], values["calls"], values["remove"]
        if self.message is None:
            before = int(values["before"]) if values["before"] else None
            new = edits.new_message(values["role"] or "user", content, calls, values["answers_call"], before)
            return None if is_removed else new
        if is_removed:
            return plan.MessageEdit(self.message.position, content=content, calls=calls, is_removed=True)
        return edits.changed_message(self.message, content, calls)


class MessageForms(BaseFormSet):  # type: ignore[type-arg]
    """The forms of one entry's messages, in their order, then those of new ones."""

    def __init__(self, data: Any, name: str, messages: Sequence[plan.EditableMessage]) -> None:
        self.name, self.messages = name, messages
        prefix = f"messages:{name}"
        total = f"{prefix}-TOTAL_FORMS"
        is_sent = data is not None and total in data
        # Whether the button that adds a message to this conversation was pressed.
        self.is_grown = bool(is_sent and data.get(ADD) == name)
        if self.is_grown and (count := number_in(data[total])) is not None:
            data = data.copy()
            data[total] = str(count + 1)
        initial = [initial_of(one) for one in messages]
        super().__init__(data if is_sent else None, prefix=prefix, initial=initial)

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        is_stored = index is not None and index < len(self.messages)
        message = self.messages[index] if is_stored and index is not None else None
        return {"message": message, "count": 0 if message else len(self.messages)}

    @property
    def edits(self) -> list[plan.MessageEdit]:
        """What was typed, in the order of the messages."""
        return [edit for form in self.forms if (edit := form.edit) is not None]


def message_forms(data: Any, name: str, messages: Sequence[plan.EditableMessage]) -> MessageForms:
    """The forms of an entry's messages, first shown if nothing of them was sent."""
    most = 2 * MAX_MESSAGES
    made = formset_factory(MessageForm, formset=MessageForms, extra=0, max_num=most, absolute_max=most)
    return cast(type[MessageForms], made)(data, name, messages)


def fits_form(messages: Sequence[plan.EditableMessage]) -> bool:
    """Whether a form with these messages is not too long to be sent."""
    size = sum(len(content_text(one).encode(errors="replace")) for one in messages)
    return len(messages) <= MAX_MESSAGES and size <= MAX_BYTES


def initial_of(message: plan.EditableMessage) -> dict[str, Any]:
    """The fields of a stored message."""
    return {"role": message.role, "text": content_text(message), "calls": calls_text(message.calls)}


def message_fields(
    name: str, messages: Sequence[plan.EditableMessage], position: int, text: Any, calls: Sequence[Any]
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
        f"{prefix}-{at}-text": text if isinstance(messages[at].content, str) else edits.as_json(text),
        f"{prefix}-{at}-calls": calls_text(calls),
    }


def content_text(message: plan.EditableMessage) -> str:
    """The content as text, as JSON if it is a list of parts."""
    return message.content if isinstance(message.content, str) else edits.as_json(message.content)


def calls_text(calls: Sequence[Any]) -> str:
    """The calls of tools as JSON; empty if there are none."""
    return edits.as_json(list(calls)) if calls else ""


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
        written = self.forms.edits
        if not written:
            return _("Unchanged")
        removed = sum(edit.is_removed for edit in written)
        added = sum(edit.position is None for edit in written)
        before = len(self.forms.messages)
        counts = {
            "changed": len(written) - removed - added,
            "removed": removed,
            "added": added,
            "before": before,
            "after": before + added - removed,
        }
        text = ngettext(
            "%(changed)d changed, %(removed)d removed, %(added)d added: %(before)d → %(after)d message",
            "%(changed)d changed, %(removed)d removed, %(added)d added: %(before)d → %(after)d messages",
            counts["after"],
        )
        return text % counts


def conversation_parts(
    data: Any, contents: Contents, edited: plan.Editable, modes: ModesForm
) -> list[ConversationPart]:
    """The part of each conversation that is short enough, in its initial state if ``data`` is None."""
    state, found = edited.state or {}, []
    for number, name in enumerate(conversations_in(edited)):
        forms = message_forms(data, name, edited.conversations[name])
        by_id = modes.adds(name)
        value, error = edits.written_messages(contents, state[name], forms.edits, by_id=by_id)
        field = f"mode:{name}"
        mode = modes[field] if field in modes.fields else None
        if error and mode is not None:
            modes.add_error(field, error)
        found.append(ConversationPart(forms, f"messages-{number}", mode, by_id, value, error))
    return found


def conversations_in(edited: plan.Editable) -> list[str]:
    """The names of the entries whose messages are edited one by one."""
    return [name for name, messages in edited.conversations.items() if fits_form(messages)]


def without_conversations(edited: plan.Editable) -> Mapping[str, Any]:
    """The entries of the state that have a field of their own."""
    names = set(conversations_in(edited))
    return {name: value for name, value in (edited.state or {}).items() if name not in names}
