"""The form and the page of a sweep, with the values of each dimension."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.forms import BoundField, Form
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.entry_points import InputName
from viewer.engines.plan import NO_SCHEMA, EditableOutput, OpenQuestion, Schema
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.edits import ValueKind, output_text
from viewer.launching.preview import unrestored
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import Dimension, SweepRequest, sweep_prefix
from viewer.launching.sweep import (
    MAX_VARIATIONS,
    SweepPreview,
    answer_dimension,
    dimension_values,
    editing_kind,
    model_dimension,
    output_dimension,
    output_label,
    preview_sweep,
    sweep,
    value_dimension,
)
from viewer.models import Checkpoint, Job, Sweep
from viewer.web.fields import ValueField, parsed, valid_values
from viewer.web.launch import edits
from viewer.web.launch.options import (
    ModelField,
    ModelsForm,
    NamedValuesForm,
    OptionParts,
    models_form,
    score_field,
)
from viewer.web.launch.page import CheckpointPage, FieldError, preflight_for
from viewer.web.launch.prefilled import Submission, source_at

# The form of a sweep: the values of each dimension.


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
        return value_dimension(self.group, self.key, editing_kind(self.value.stored), text)


class ModelsField(DimensionField):
    """Several models of one role, or of all, one on each line."""

    def __init__(self, model: ModelField) -> None:
        self.model = model
        label = gettext("model") if model.is_all else model.role
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
        return value_dimension(self.group, self.key, self.value.kind, text)


class AnswersField(DimensionField):
    """Several answers to one question, one on each line."""

    def __init__(self, question: OpenQuestion, number: int) -> None:
        self.question = question
        widget = forms.Textarea(attrs={"id": f"vary-answer-{number}"})
        super().__init__("answer", question.id, question.prompt, widget)

    def clean(self, value: Any) -> Dimension:
        text = super().clean(value)
        return parsed(lambda: answer_dimension(self.question, text))


class SweepForm(edits.BranchForm):
    """What varies, and the function that scores the results."""

    score = score_field()

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


# The parts of a sweep's page: the values of each dimension, as typed.


# The number of text fields of an output, before more are added.
TEXTS_AT_FIRST = 2


@dataclass(frozen=True, slots=True)
class VariationPart(edits.FieldView):
    """The typed values of one dimension."""

    field: DimensionField
    texts: list[str]

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
        return edits.shown_text(field.value) if isinstance(field, ValuesField) else ""

    @property
    def kind_label(self) -> str:
        field = self.field
        if not isinstance(field, ValuesField | SettingsField):
            return ""
        # The label of a list explains the format of a fork's form, which differs here.
        return (
            gettext("list")
            if field.value.kind is ValueKind.LIST
            else str(edits.KIND_LABELS[field.value.kind])
        )

    @property
    def hint(self) -> str:
        """How to type several values; for an output, the unit that produced it."""
        field = self.field
        if isinstance(field, TextsField):
            return field.output.title
        if isinstance(field, ModelsField):
            return gettext("one model per line")
        if isinstance(field, ValuesField | SettingsField) and field.value.kind in (
            ValueKind.LIST,
            ValueKind.JSON,
        ):
            return gettext("a JSON list of values, such as %(example)s") % {"example": '[["a"], ["b", "c"]]'}
        return gettext("One value per line")

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
    group, stored = dimension_values(contents)
    values = edits.ValuesForm(None, group, stored).value_fields.values()
    too_long = edits.OutputsForm(None, editable.outputs).too_long
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


# The page of a sweep.


TITLES = {
    "input": _("Inputs"),
    "state": _("State"),
    "answer": _("Answers"),
    "configurable": _("Configurable values"),
    "context": _("Context"),
    "output": _("Outputs"),
    "model": _("Models"),
}


@dataclass(frozen=True, slots=True)
class SweepParts:
    """The parts of the page. ``dimensions`` is what the forks differ in, ordered by group."""

    target: SweepForm
    dimensions: list[VariationPart]
    options: OptionParts

    @property
    def sections(self) -> list[tuple[str, str, list[VariationPart]]]:
        """The dimensions by group: its name, its title and its parts."""
        groups = groupby(self.dimensions, attrgetter("field.group"))
        return [(group, str(TITLES[group]), list(parts)) for group, parts in groups]


@dataclass(kw_only=True)
class SweepPage(CheckpointPage[SweepPreview, Sweep]):
    """``parts`` holds the common values of all forks, and the varied ones."""

    parts: SweepParts
    # Used by templates shared with the fork page.
    is_fork: bool = True
    kind: str = Job.Kind.FORK

    @property
    def forms(self) -> Sequence[Form]:
        return (*self.parts.options.forms, self.parts.target)

    @property
    def shows_refusal(self) -> bool:
        return bool(self.against or (self.is_sent and not self.can_start))

    @property
    def max_variations(self) -> int:
        return MAX_VARIATIONS

    @property
    def unrestored(self) -> str:
        return "" if self.findings else unrestored(self.preview.request)

    @property
    def refusals(self) -> list[Refusal]:
        """Each reason once. Invalid values are not also reported as a lack of variations."""
        found = super().refusals
        if any(part.error for part in self.parts.dimensions) and not self.preview.count:
            return [one for one in found if one.code != Code.VARIATIONS]
        return found

    @property
    def form_errors(self) -> list[FieldError]:
        """The errors of all forms, those of the variations first, as on the page."""
        first = {part.html_id for part in self.parts.dimensions}
        return sorted(super().form_errors, key=lambda error: error.html_id not in first)

    def launch(self) -> Sweep:
        return sweep(self.preview)


def sweep_page(checkpoint: Checkpoint, submission: Submission, sweep_key: UUID) -> SweepPage:
    """The page in its initial state, or with the submitted values. ``sweep_key`` identifies the sweep."""
    source, data = source_at(checkpoint), submission.data
    models, preflight = models_form(source.contents, data), edits.PreflightForm(data)
    schema = source.schema(source.entry_point(data))
    as_nodes = engine_of(source.contents).editable(source.contents).as_nodes and schema.units
    fields = dimension_fields(source.contents, models, schema)
    target = SweepForm(data, source.entry_points, source.proposed, fields, as_nodes)
    parts = SweepParts(target, variation_parts(target, data), source.options(models, data, schema))
    request = SweepRequest(
        **source.request_values(parts.options, preflight, submission),
        entry_point=target.chosen_entry_point,
        prefix=target.branch_name,
        dimensions=target.dimensions,
        again_stale=target.runs_stale_again,
        as_node=target.chosen_node,
        uses_recorded_code=target.uses_recorded_code,
        score=target.score_function,
        accepted=replace(preflight.accepted_by_person, redacted_parts=""),
        key=sweep_key,
    )
    if not request.prefix:
        request = replace(request, prefix=sweep_prefix(request))
    preview = preview_sweep(request)
    if preview.needs_preflight and not target.errors.get("entry_point"):
        preview.add_findings(preflight_for(request, preflight))
    return SweepPage(**submission.page_values, parts=parts, preview=preview)
