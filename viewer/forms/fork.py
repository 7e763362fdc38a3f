"""The form of a fork: fields for what a checkpoint holds, and edits from what was typed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.editable import EditableOutput
from viewer.engines.plan import Edits
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.checkpointing import Checkpointing
from viewer.forms.fields import OutputField, Sent, ValueField, read_output, read_value
from viewer.forms.limits import LimitsPart
from viewer.forms.models import ModelChoices, read_models
from viewer.forms.schedule import Timing
from viewer.launching.dimensions import output_text
from viewer.launching.values import MAX_CHARACTERS, InvalidValue, Kind, parse_value

# Further values are edited as one JSON object, as a longer page would be hard to use.
MOST_FIELDS = 60
# Of all outputs together: the server accepts no larger form.
MOST_BYTES = 1_500_000


@dataclass(frozen=True, slots=True)
class FormError:
    """An error, with the id and label of its field."""

    html_id: str
    label: str
    message: str


@dataclass(slots=True)
class MoreValues:
    """A JSON object with the values that have no field."""

    html_name: str
    html_id: str
    names: list[str]
    text: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(slots=True)
class ValueGroup:
    """The kickoff inputs, or the state."""

    fields: list[ValueField]
    # None if there can be no others.
    more: MoreValues | None

    @property
    def changes(self) -> dict[str, Any]:
        """The values that differ from the stored ones, by name."""
        changed = {one.name: one.value for one in self.fields if one.changed}
        return {**changed, **(self.more.values if self.more else {})}

    @property
    def errors(self) -> Iterator[FormError]:
        for one in self.fields:
            if one.error:
                yield FormError(one.html_id, one.name, one.error)
        if self.more and self.more.error:
            yield FormError(self.more.html_id, _("More values"), self.more.error)


@dataclass(slots=True)
class ForkForm:
    """Everything that can be edited before a fork. ``inputs`` and ``state`` are None if there are none."""

    inputs: ValueGroup | None
    state: ValueGroup | None
    outputs: list[OutputField]
    again: frozenset[str]
    keep: frozenset[str]
    branch: str
    entry_point: str
    entry_point_error: str
    models: ModelChoices = field(default_factory=ModelChoices)
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    timing: Timing = field(default_factory=Timing)
    limits: LimitsPart = field(default_factory=LimitsPart)

    @property
    def edits(self) -> Edits:
        """The values that a person changed."""
        state = self.state.changes if self.state else {}
        return Edits(
            inputs=self.inputs.changes if self.inputs else {},
            outputs={output.unit: output.value for output in self.outputs if output.changed},
            state=state or None,
            again=self.again,
            keep=self.keep,
        )

    @property
    def changed_ids(self) -> list[str]:
        """The ids of the fields that hold an edit."""
        groups = [group for group in (self.inputs, self.state) if group]
        values = [one.html_id for group in groups for one in group.fields if one.changed]
        return values + [output.html_id for output in self.outputs if output.changed]

    @property
    def errors(self) -> list[FormError]:
        """The errors of all fields, in the order of the page."""
        found = [*(self.inputs.errors if self.inputs else []), *(self.state.errors if self.state else [])]
        for output in self.outputs:
            if output.error:
                found.append(FormError(output.html_id, output.title, output.error))
        found += [FormError(*error) for error in (*self.models.errors, *self.checkpointing.errors)]
        found += [FormError(*error) for error in (*self.timing.errors, *self.limits.errors)]
        if self.entry_point_error:
            found.append(FormError("entry-point", _("Entry point"), self.entry_point_error))
        return found


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a form needs in addition to the checkpoint."""

    proposed_branch: str
    entry_points: Sequence[str]
    proposed_entry_point: str


def read_fork(
    contents: Contents, around: Surroundings, sent: Sent, chosen: Mapping[str, list[str]]
) -> ForkForm:
    """The form, first shown if ``sent`` is None, with the errors of its fields.

    ``chosen`` holds the ids of units to run ``again`` and to ``keep``.
    """
    engine = engine_of(contents)
    kind, editable = kind_of(engine, contents.kind), engine.editable(contents)
    inputs = None if editable.inputs is None else _group("input", editable.inputs, sent)
    if inputs and not kind.can_add_inputs:
        inputs.more = None
    state = None if editable.state is None else _group("state", editable.state, sent)
    branch = around.proposed_branch
    if sent is not None:
        branch = sent.get("branch", "").strip()
    entry_point = around.proposed_entry_point if sent is None else sent.get("entry_point", "")
    return ForkForm(
        inputs=inputs,
        state=state,
        outputs=_outputs(editable.outputs, sent),
        again=frozenset(chosen.get("again", [])),
        keep=frozenset(chosen.get("keep", [])),
        branch=branch,
        entry_point=entry_point,
        entry_point_error=_entry_point_error(entry_point, around.entry_points),
        models=read_models(contents, sent),
    )


def _group(name: str, stored: Mapping[str, Any], sent: Sent) -> ValueGroup:
    names = list(stored)
    fields = [
        read_value(name, number, key, stored[key], sent) for number, key in enumerate(names[:MOST_FIELDS])
    ]
    return ValueGroup(fields, read_more(name, names[MOST_FIELDS:], fields, sent))


def read_more(name: str, names: list[str], fields: Sequence[ValueField], sent: Sent) -> MoreValues:
    """The JSON object for values without a field; ``names`` are the known ones."""
    more = MoreValues(f"{name}-more", f"{name}-more", names)
    more.text = "" if sent is None else sent.get(more.html_name, "")
    try:
        values = parse_value(more.text, Kind.JSON) if more.text.strip() else {}
        if not isinstance(values, dict):
            raise InvalidValue(_('This must be a JSON object, such as {"name": "value"}.'))
        doubled = [key for key in values if any(one.name == key for one in fields)]
        if doubled:
            raise InvalidValue(_("%(name)s has its own field.") % {"name": doubled[0]})
        more.values = values
    except InvalidValue as refused:
        more.error = str(refused)
    return more


def _outputs(outputs: Sequence[EditableOutput], sent: Sent) -> list[OutputField]:
    """The fields of outputs. Those that would make the form too large to send cannot be edited."""
    left, made = MOST_BYTES, []
    for one in outputs:
        stored = output_text(one)
        left -= len(stored.encode(errors="replace"))
        made.append(_output(one, stored, left < 0 or len(stored) > MAX_CHARACTERS, sent))
    return made


def _output(output: EditableOutput, stored: str, too_long: bool, sent: Sent) -> OutputField:
    made = OutputField(
        unit=output.unit,
        position=output.position,
        title=output.title,
        agent=output.agent,
        html_id=f"output-{output.position}",
        is_json=output.value is not None,
        stored=stored,
        text=stored,
        too_long=too_long,
    )
    return read_output(made, output.value, sent)


def _entry_point_error(entry_point: str, entry_points: Sequence[str]) -> str:
    if entry_point and entry_point not in entry_points:
        return _("This project has no such entry point.")
    return ""
