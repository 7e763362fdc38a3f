"""Questions with their answers, and conversations with their messages, as a launch page shows them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.editable import AnswerField, AnswerOption, Editable, OpenQuestion
from viewer.engines.protocol import Contents
from viewer.launching.edits import written_messages
from viewer.models import Checkpoint, Question, Run
from viewer.records.run_rows import branch_status
from viewer.redaction import MARKER
from viewer.web.forms.answers import AnswersForm, choice_texts, part_name
from viewer.web.forms.messages import (
    MessageForm,
    MessageForms,
    ModesForm,
    content_text,
    fits_form,
    message_forms,
)
from viewer.web.launch.edits import FieldView, first_error

# Questions of a checkpoint or run with their answers, as a page shows them.


@dataclass(frozen=True, slots=True)
class PartView(FieldView):
    """A field of an option with its typed value."""

    part: AnswerField

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

    option: AnswerOption
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

    question: OpenQuestion
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


@dataclass(frozen=True, slots=True)
class AnswersPart:
    """The questions, at least one."""

    form: AnswersForm

    @property
    def views(self) -> list[AnswerView]:
        form = self.form
        return [
            AnswerView(
                form[f"answer:{number}"],
                question,
                form[f"choice:{number}"],
                form[f"type:{number}"],
                [
                    OptionView(option, self._parts(number, position, option))
                    for position, option in enumerate(question.options)
                ],
            )
            for number, question in enumerate(form.questions)
        ]

    @property
    def text(self) -> str | None:
        """The answer to the only question, in the runner's format; None if it was not answered."""
        answers = self.form.answers
        if not self.form.is_valid() or not answers:
            return None
        (answer,) = answers.values()
        return answer if isinstance(answer, str) and not _is_json(answer) else json.dumps(answer)

    def _parts(self, number: int, position: int, option: AnswerOption) -> list[PartView]:
        names = (part_name(number, position, field) for field in range(len(option.fields)))
        return [PartView(self.form[name], part) for part, name in zip(option.fields, names, strict=True)]


def asked_part(question: Question, data: Any = None) -> AnswersPart | None:
    """The part for a question of a run; None if its engine suggests no answers."""
    if question.kind != Question.Kind.INTERRUPT:
        return None
    engine = engine_of(question.job.location)
    asked = engine.asked_question(question.prompt, question.context)
    return AnswersPart(AnswersForm(data, [asked])) if asked else None


def answers_part(
    data: Any, edited: Editable, must_choose: bool, chosen: Mapping[str, str] | None = None
) -> AnswersPart | None:
    """The part, in its initial state if ``data`` is None. Returns None if nothing waits for an answer.

    ``chosen`` are the options that the link to the page named, by the field.
    """
    if not edited.questions:
        return None
    if data is None and chosen:
        part = AnswersPart(AnswersForm(chosen, edited.questions))
        # An option with fields is not an error before anything was typed.
        return (
            part if part.form.is_valid() else AnswersPart(AnswersForm(None, edited.questions, initial=chosen))
        )
    return AnswersPart(AnswersForm(data, edited.questions, must_choose))


def asked_at(checkpoint: Checkpoint, contents: Contents) -> AnswersPart | None:
    """The questions that a checkpoint waits for, without an answer; None if it waits for none."""
    if branch_status(checkpoint) != Run.Status.WAITING:
        return None
    return answers_part(None, engine_of(contents).editable(contents), must_choose=False)


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
