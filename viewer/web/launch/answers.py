"""Answers to what a checkpoint or a run waits for: their form, and the part of a page with it."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid, check_answer
from viewer.engines.editable import MISSING, AnswerField, AnswerOption, Editable, OpenQuestion
from viewer.engines.protocol import Contents
from viewer.launching.edits import (
    INVALID,
    InvalidValue,
    ValueKind,
    as_json,
    parse_typed_answer,
    parse_value,
    text_of,
)
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Question, Run
from viewer.records.run_rows import branch_status
from viewer.web.fields import valid_values
from viewer.web.launch.edits import FieldView

# The form of answers to what a checkpoint or a run waits for.


TYPES = ((ValueKind.TEXT.value, gettext_lazy("text")), (ValueKind.JSON.value, gettext_lazy("JSON")))


class AnswersForm(forms.Form):
    """For each question: an option with its fields, or a text or JSON value. An empty answer is none.

    If a person has to choose, the choice of no answer is one as well, but no choice is an error.
    """

    def __init__(
        self,
        data: Any,
        questions: Sequence[OpenQuestion],
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
                required=False, choices=TYPES, initial=ValueKind.TEXT.value, label=gettext_lazy("Type")
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
            kind = ValueKind(self.cleaned_data.get(f"type:{number}") or ValueKind.TEXT)
            if text.strip():
                try:
                    self.cleaned_data[name] = parse_typed_answer(question, text, kind)
                except INVALID as invalid:
                    self.add_error(name, translate(invalid))
                continue
            if self.must_choose and question.options and f"choice:{number}" not in self.data:
                self.add_error(name, _("Choose an answer, or choose to be asked in the inbox."))
            for position, option in enumerate(question.options):
                if option.label == self.cleaned_data.get(f"choice:{number}"):
                    self._choose(number, position, option)
        return self.cleaned_data

    def _choose(self, number: int, position: int, option: AnswerOption) -> None:
        """Make the answer of an option from what was typed into its fields."""
        answer = copy.deepcopy(option.value)
        for field, one in enumerate(option.fields):
            name = part_name(number, position, field)
            try:
                value = _typed(one, self.cleaned_data.get(name) or "")
            except INVALID as invalid:
                self.add_error(name, translate(invalid))
                return
            if value is not MISSING:
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


def part_name(number: int, position: int, field: int) -> str:
    """The name of a field of an option of a question, by their positions."""
    return f"part:{number}:{position}:{field}"


def _part(one: AnswerField, number: int, position: int, field: int) -> forms.CharField:
    """The field for a part of an answer. Its text has the form of the part's kind."""
    stored = one.stored
    text = "" if stored is MISSING or stored is None else _as_text(stored, ValueKind(one.kind))
    attrs = {"id": f"part-{number}-{position}-{field}"}
    return forms.CharField(
        required=False, strip=False, label=one.label, initial=text, widget=forms.Textarea(attrs=attrs)
    )


def _as_text(value: Any, kind: ValueKind) -> str:
    try:
        return text_of(value, kind)
    except TypeError:
        # A default that is not of the type that its schema names.
        return as_json(value)


def choice_texts(one: AnswerField) -> list[str]:
    """The values that a field chooses from, as texts."""
    if one.kind == ValueKind.YES_NO:
        return ["true", "false"]
    return [value if isinstance(value, str) else as_json(value) for value in one.choices]


def _typed(one: AnswerField, text: str) -> Any:
    """The value of a field; MISSING if nothing is typed that has to be. Raises InvalidValue."""
    if not text.strip() and (one.stored is MISSING or one.choices or one.kind != ValueKind.TEXT):
        if one.is_required:
            raise InvalidValue(_("The answer requires this value."))
        return MISSING
    if one.choices:
        found = [value for value, shown in zip(one.choices, choice_texts(one), strict=True) if shown == text]
        if not found:
            raise InvalidValue(_("Choose one of the values."))
        return found[0]
    return parse_value(text, ValueKind(one.kind))


def _with_value(answer: Any, path: Sequence[str | int], value: Any) -> Any:
    """The answer with a value at the end of a path."""
    if not path:
        return value
    inner = answer
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return answer


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
