"""The form of a sweep: the values of each dimension."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django import forms
from django.utils.translation import gettext as _

from viewer.engines.editable import EditableOutput, OpenQuestion
from viewer.launching.edits import output_text
from viewer.launching.options import SCORE
from viewer.launching.requests import Dimension
from viewer.launching.variations import (
    answer_dimension,
    model_dimension,
    output_dimension,
    output_label,
    setting_dimension,
    value_dimension,
)
from viewer.web.forms.fields import OptionField, ValueField, parsed, valid_values
from viewer.web.forms.fork import BranchForm
from viewer.web.forms.options import ModelField


class DimensionField(forms.CharField):
    """One dimension, cleaned to its values. It varies if there are any."""

    def __init__(self, group: str, key: str, label: Any, widget: forms.Widget) -> None:
        self.group, self.key = group, key
        super().__init__(required=False, strip=False, initial="", label=label, widget=widget)

    @property
    def name(self) -> str:
        """The name under which a browser sends it."""
        return f"vary-{self.group}:{self.key}"


class ValuesField(DimensionField):
    """Several values of an input, or of an entry of the state, in one text."""

    def __init__(self, group: str, value: ValueField) -> None:
        self.value = value
        widget = forms.Textarea(attrs={"id": f"vary-{value.widget.attrs['id']}"})
        super().__init__(group, value.name, value.name, widget)

    def clean(self, value: Any) -> Dimension:
        text = super().clean(value)
        return parsed(lambda: self.dimension_of(text))

    def dimension_of(self, text: str) -> Dimension:
        """The dimension of these values. Raises InvalidValue."""
        return value_dimension(self.group, self.key, self.value.stored, text)


class ModelsField(DimensionField):
    """Several models of one role, or of all, one on each line."""

    def __init__(self, model: ModelField) -> None:
        self.model = model
        label = _("model") if model.is_all else model.role
        widget = forms.Textarea(attrs={"id": f"vary-{model.widget.attrs['id']}"})
        super().__init__("model", model.role, label, widget)

    def clean(self, value: Any) -> Dimension:
        text = super().clean(value)
        return parsed(lambda: model_dimension(self.key, text.splitlines()))


class Texts(NamedTuple):
    """The typed outputs, and whether the stored one is a value too."""

    texts: list[str]
    keeps_stored: bool


class TextsInput(forms.Textarea):
    """Several texts of one name, and a box named ``stored_name``."""

    def __init__(self, stored_name: str, html_id: str) -> None:
        super().__init__(attrs={"id": html_id})
        self.stored_name = stored_name

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Texts:
        texts = [text for text in data.getlist(name) if text.strip()]
        return Texts(texts, bool(data.get(self.stored_name)))


class TextsField(DimensionField):
    """Several outputs of a finished unit."""

    def __init__(self, unit: str, output: EditableOutput) -> None:
        self.output, self.stored = output, output_text(output)
        # The name of the box that adds the stored text.
        self.stored_name = f"vary-stored:{output.unit}"
        widget = TextsInput(self.stored_name, f"vary-output-{output.position}")
        super().__init__("output", output.unit, output_label(unit, output), widget)
        self.initial = Texts([], False)

    def clean(self, value: Texts) -> Dimension:
        texts, keeps_stored = value
        return parsed(lambda: output_dimension(str(self.label), self.output, texts, keeps_stored))


class SettingsField(ValuesField):
    """Several values of one name that the project's code reads, in one text."""

    def dimension_of(self, text: str) -> Dimension:
        return setting_dimension(self.group, self.key, self.value.kind, text)


class AnswersField(DimensionField):
    """Several answers to one question, one on each line."""

    def __init__(self, question: OpenQuestion, number: int) -> None:
        self.question = question
        widget = forms.Textarea(attrs={"id": f"vary-answer-{number}"})
        super().__init__("answer", question.id, question.prompt, widget)

    def clean(self, value: Any) -> Dimension:
        text = super().clean(value)
        return parsed(lambda: answer_dimension(self.question, text))


class SweepForm(BranchForm):
    """What varies, and the function that scores the results."""

    score = OptionField(
        SCORE,
        "score-function",
        **{
            "class": "input input-mono",
            "placeholder": "judge:headline",
            "spellcheck": "false",
            "autocapitalize": "none",
            "aria-describedby": "score-hint",
        },
    )

    def __init__(
        self,
        data: Any,
        entry_points: Sequence[str],
        proposed: Mapping[str, str],
        dimensions: Iterable[DimensionField],
        as_nodes: Sequence[str] = (),
    ) -> None:
        super().__init__(data, entry_points, proposed, as_nodes)
        self.fields |= {field.name: field for field in dimensions}

    @property
    def score_function(self) -> str:
        """The typed function; empty for none."""
        return str(valid_values(self).get("score") or "")

    @property
    def dimensions(self) -> list[Dimension]:
        """The dimensions that have values, in the order of the page."""
        values = [value for value in valid_values(self).values() if isinstance(value, Dimension)]
        return [one for one in values if one.values]
