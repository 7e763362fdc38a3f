"""The parts of a sweep's page: the values of each dimension, as typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.entry_points import InputName
from viewer.engines.planning.schema import NO_SCHEMA, Schema
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.launch.fork import OutputsForm, ValuesForm
from viewer.forms.launch.run_settings import NamedValuesForm
from viewer.forms.launch.sweep import (
    AnswersField,
    DimensionField,
    ModelsField,
    SettingsField,
    SweepForm,
    TextsField,
    ValuesField,
)
from viewer.forms.models import ModelField, ModelsForm
from viewer.launching.requests.values import ValueKind
from viewer.presentation.launch.edit_parts import KIND_LABELS, FieldView, shown_text

# The number of text fields of an output, before more are added.
TEXTS_AT_FIRST = 2


@dataclass(frozen=True, slots=True)
class VariationPart(FieldView):
    """The typed values of one dimension."""

    field: DimensionField
    texts: list[str]

    @property
    def group(self) -> str:
        return self.field.group

    @property
    def key(self) -> str:
        return self.field.key

    @property
    def label(self) -> str:
        return str(self.bound.label)

    @property
    def stored(self) -> str:
        """The stored value as text."""
        field = self.field
        if isinstance(field, TextsField):
            return field.stored
        if isinstance(field, ModelsField):
            return field.model.stored
        return shown_text(field.value) if isinstance(field, ValuesField) else ""

    @property
    def kind_label(self) -> str:
        field = self.field
        if not isinstance(field, ValuesField | SettingsField):
            return ""
        # The label of a list explains the format of a fork's form, which differs here.
        return _("list") if field.value.kind is ValueKind.LIST else str(KIND_LABELS[field.value.kind])

    @property
    def hint(self) -> str:
        """How to type several values; for an output, the unit that produced it."""
        field = self.field
        if isinstance(field, TextsField):
            return field.output.title
        if isinstance(field, ModelsField):
            return _("one model per line")
        if isinstance(field, ValuesField | SettingsField) and field.value.kind in (
            ValueKind.LIST,
            ValueKind.JSON,
        ):
            return _("a JSON list of values, such as %(example)s") % {"example": '[["a"], ["b", "c"]]'}
        return _("One value per line")

    @property
    def keeps_stored(self) -> bool:
        """Whether the stored output is also one of the values."""
        return isinstance(self.field, TextsField) and self.bound.value().keeps_stored

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""

    @property
    def rows(self) -> int:
        return min(8, max(2, self.text.count("\n") + 1))

    @property
    def is_open(self) -> bool:
        return any(text.strip() for text in self.texts) or bool(self.error)


def dimension_fields(
    contents: Contents, models: ModelsForm, schema: Schema = NO_SCHEMA
) -> list[DimensionField]:
    """The fields that can vary: inputs or state, answers, run settings, outputs and models."""
    engine = engine_of(contents)
    editable, unit = engine.editable(contents), kind_of(engine, contents.kind).unit_label
    group, stored = ("state", editable.state) if editable.inputs is None else ("input", editable.inputs)
    values = ValuesForm(None, group, stored or {}).value_fields.values()
    too_long = OutputsForm(None, editable.outputs).too_long
    return [
        *(ValuesField(group, value) for value in values),
        *(AnswersField(question, number) for number, question in enumerate(editable.questions, 1)),
        *_settings_fields("configurable", schema.configurable),
        *_settings_fields("context", schema.context),
        *(TextsField(unit, output) for output in editable.outputs if output.unit not in too_long),
        *(ModelsField(field) for field in models.fields.values() if isinstance(field, ModelField)),
    ]


def _settings_fields(group: str, names: Sequence[InputName]) -> list[SettingsField]:
    fields = NamedValuesForm(None, group, names).value_fields.values()
    return [SettingsField(group, field) for field in fields]


def variation_parts(form: SweepForm, data: Any) -> list[VariationPart]:
    """The part of each dimension. An output has one more text field if that was requested."""
    fields = {name: field for name, field in form.fields.items() if isinstance(field, DimensionField)}
    another = data.getlist("another") if data is not None else []
    return [
        VariationPart(form[name], field, _texts(form[name], field, name in another))
        for name, field in fields.items()
    ]


def _texts(bound: BoundField, field: DimensionField, is_added: bool) -> list[str]:
    if not isinstance(field, TextsField):
        return [str(bound.value() or "")]
    texts = list(bound.value().texts)
    return texts + [""] * max(int(is_added), TEXTS_AT_FIRST - len(texts))
