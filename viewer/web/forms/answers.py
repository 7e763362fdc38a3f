"""The form of answers to what a checkpoint or a run waits for."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.answer_schema import AnswerInvalid, check_answer
from viewer.engines.editable import MISSING, AnswerField, AnswerOption, OpenQuestion
from viewer.launching.edits import parse_typed_answer
from viewer.launching.values import INVALID, InvalidValue, ValueKind, as_json, parse_value, text_of
from viewer.messages.translation import translate
from viewer.web.forms.fields import valid_values

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
