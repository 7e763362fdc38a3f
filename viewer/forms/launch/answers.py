"""The form of answers to what a checkpoint waits for."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from viewer.engines.editable import OpenQuestion
from viewer.forms.launch.valid_values import valid_values
from viewer.launching.values import InvalidValue, Kind, parse_value

TYPES = ((Kind.TEXT.value, _("text")), (Kind.JSON.value, _("JSON")))


class AnswersForm(forms.Form):
    """For each question: one of its choices, or a text or JSON value. An empty answer is none."""

    def __init__(self, data: Any, questions: Sequence[OpenQuestion]) -> None:
        super().__init__(data)
        self.questions = list(questions)
        for number, question in enumerate(self.questions):
            choices = [(one, one) for one in question.choices]
            self.fields[f"choice:{number}"] = forms.ChoiceField(required=False, choices=[("", ""), *choices])
            self.fields[f"type:{number}"] = forms.ChoiceField(
                required=False, choices=TYPES, initial=Kind.TEXT.value, label=_("Type")
            )
            self.fields[f"answer:{number}"] = forms.CharField(
                required=False,
                strip=False,
                label=question.prompt,
                widget=forms.Textarea(attrs={"id": f"answer-{number}"}),
            )

    def clean(self) -> dict[str, Any]:
        for number in range(len(self.questions)):
            name = f"answer:{number}"
            text = self.cleaned_data.get(name) or ""
            kind = Kind(self.cleaned_data.get(f"type:{number}") or Kind.TEXT)
            if text.strip():
                try:
                    self.cleaned_data[name] = parse_value(text, kind)
                except InvalidValue as invalid:
                    self.add_error(name, str(invalid))
        return self.cleaned_data

    @property
    def answers(self) -> dict[str, Any]:
        """The answers by the question's id. What was typed counts instead of a choice."""
        values, found = valid_values(self), {}
        for number, question in enumerate(self.questions):
            typed, choice = values.get(f"answer:{number}"), values.get(f"choice:{number}")
            if typed not in (None, "") and not (isinstance(typed, str) and not typed.strip()):
                found[question.id] = typed
            elif choice:
                found[question.id] = choice
        return found
