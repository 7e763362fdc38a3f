"""The form of a sweep: the values of each dimension."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.editable import EditableOutput
from viewer.engines.protocol import Contents
from viewer.forms.fields import OutputField, ValueField
from viewer.forms.fork import ForkForm, FormError
from viewer.forms.models import ModelField
from viewer.launching.dimensions import model_dimension, output_dimension, value_dimension
from viewer.launching.requests import Dimension
from viewer.launching.values import InvalidValue, Kind
from viewer.launching.variations import MAX_VARIATIONS

# How many texts can be typed for an output before another is added.
TEXTS_AT_FIRST = 2
# Names, and each text that was sent under them. None if the form is shown for the first time.
SentTexts = Mapping[str, Sequence[str]] | None


@dataclass(slots=True)
class DimensionField:
    """The values of one dimension as typed. It varies if there are any."""

    group: str
    key: str
    label: str
    html_id: str
    stored: str
    kind_words: str = ""
    hint: str = ""
    texts: list[str] = field(default_factory=list)
    dimension: Dimension | None = None
    keeps_stored: bool = False
    error: str = ""

    @property
    def html_name(self) -> str:
        return f"vary-{self.group}:{self.key}"

    @property
    def stored_name(self) -> str:
        """The name of the box that adds the stored text."""
        return f"vary-stored:{self.key}"

    @property
    def values(self) -> Sequence[Any]:
        return self.dimension.values if self.dimension else []

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""

    @property
    def rows(self) -> int:
        return min(8, max(2, self.text.count("\n") + 1))

    @property
    def is_open(self) -> bool:
        return any(text.strip() for text in self.texts) or bool(self.error)


@dataclass(slots=True)
class SweepForm:
    """What varies. ``base`` is the prefix of the branches."""

    varied: list[DimensionField]
    base: str
    again_stale: bool = False

    def of(self, group: str) -> list[DimensionField]:
        return [one for one in self.varied if one.group == group]

    @property
    def values(self) -> list[DimensionField]:
        """The inputs, or the state."""
        return self.of("input") + self.of("state")

    @property
    def outputs(self) -> list[DimensionField]:
        return self.of("output")

    @property
    def models(self) -> list[DimensionField]:
        return self.of("model")

    @property
    def most(self) -> int:
        return MAX_VARIATIONS

    @property
    def dimensions(self) -> list[Dimension]:
        return [one.dimension for one in self.varied if one.dimension and one.values]

    @property
    def errors(self) -> list[FormError]:
        """In the order of the page."""
        return [FormError(one.html_id, one.label, one.error) for one in self.varied if one.error]


def read_sweep(contents: Contents, plain: ForkForm, sent: SentTexts) -> SweepForm:
    """The form, first shown if ``sent`` is None. ``plain`` is the checkpoint's fork form."""
    values = plain.inputs or plain.state
    varied = [
        _value_field("input" if plain.inputs else "state", one, sent)
        for one in (values.fields if values else [])
    ]
    outputs = {one.unit: one for one in engine_of(contents).editable(contents).outputs}
    varied += [_output_field(one, outputs[one.unit], sent) for one in plain.outputs if not one.too_long]
    varied += [_model_field(one, sent) for one in plain.models.fields]
    base = plain.branch if sent is None else (sent.get("branch") or [""])[0].strip()
    return SweepForm(varied, base, bool(sent and sent.get("again-stale")))


def _value_field(group: str, one: ValueField, sent: SentTexts) -> DimensionField:
    hint = _("One value per line")
    if one.kind in (Kind.LIST, Kind.JSON):
        hint = _("a JSON list of values, such as %(example)s") % {"example": '[["a"], ["b", "c"]]'}
    # The label of a list says how one is typed in a fork's form, which differs here.
    kind = _("list") if one.kind is Kind.LIST else one.kind_words
    made = DimensionField(group, one.name, one.name, f"vary-{one.html_id}", one.stored_text, kind, hint)
    made.texts = list((sent or {}).get(made.html_name, [])[:1])
    try:
        made.dimension = value_dimension(group, one.name, one.stored, made.text)
    except InvalidValue as invalid:
        made.error = str(invalid)
    return made


def _output_field(one: OutputField, output: EditableOutput, sent: SentTexts) -> DimensionField:
    label = _("output of task %(position)d") % {"position": one.position}
    made = DimensionField("output", one.unit, label, f"vary-{one.html_id}", one.stored, hint=one.title)
    made.texts = [text for text in (sent or {}).get(made.html_name, []) if text.strip()]
    made.keeps_stored = bool(sent and sent.get(made.stored_name))
    try:
        made.dimension = output_dimension(output, made.texts, keeps_stored=made.keeps_stored)
    except InvalidValue as invalid:
        made.error = str(invalid)
    added = 1 if sent and made.html_name in sent.get("another", []) else 0
    made.texts += [""] * max(added, TEXTS_AT_FIRST - len(made.texts))
    return made


def _model_field(one: ModelField, sent: SentTexts) -> DimensionField:
    label = _("model") if one.is_all else one.role
    made = DimensionField(
        "model", one.role, label, f"vary-{one.html_id}", one.stored, hint=_("one model a line")
    )
    made.texts = list((sent or {}).get(made.html_name, [])[:1])
    try:
        made.dimension = model_dimension(one.role, made.text.splitlines())
    except InvalidValue as invalid:
        made.error = str(invalid)
    return made
