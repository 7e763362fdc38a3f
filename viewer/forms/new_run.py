"""The form of a new run: its inputs, write target and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines.editable import MISSING, Missing
from viewer.engines.entry_points import InputName
from viewer.engines.root_kinds import RootKind
from viewer.forms.checkpointing import Checkpointing
from viewer.forms.fields import Sent, ValueField, read_value
from viewer.forms.fork import MOST_FIELDS, FormError, MoreValues, ValueGroup, read_more
from viewer.forms.limits import LimitsPart, read_limits
from viewer.forms.models import ModelChoices, read_new_models
from viewer.forms.schedule import Timing, read_timing
from viewer.launching.values import Kind
from viewer.redaction.marker import MARKER

KINDS = {
    str: Kind.TEXT,
    int: Kind.WHOLE_NUMBER,
    float: Kind.NUMBER,
    bool: Kind.YES_NO,
    list: Kind.LIST,
    dict: Kind.JSON,
}


@dataclass(slots=True)
class NewRunForm:
    """``place`` is the path of a new location as typed; ``earlier`` are the inputs of an earlier run."""

    entity: str
    inputs: ValueGroup
    earlier: Mapping[str, Any]
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    models: ModelChoices = field(default_factory=ModelChoices)
    timing: Timing = field(default_factory=Timing)
    limits: LimitsPart = field(default_factory=LimitsPart)
    location: str = ""
    place: str = ""
    place_error: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """The inputs, with their types. Defaults of the source are left out."""
        given = {one.name: _value(one) for one in self.inputs.fields if self._is_given(one)}
        return {**given, **(self.inputs.more.values if self.inputs.more else {})}

    @property
    def ungiven(self) -> list[str]:
        """The names of inputs that the source asks for and that are empty."""
        return [one.name for one in self.inputs.fields if one.is_missing and not self._is_given(one)]

    @property
    def errors(self) -> list[FormError]:
        """The errors of all fields, in the order of the page."""
        found = list(self.inputs.errors)
        found += [FormError(*error) for error in (*self.models.errors, *self.checkpointing.errors)]
        found += [FormError(*error) for error in (*self.timing.errors, *self.limits.errors)]
        if self.place_error:
            found.append(FormError("place", _("New location"), self.place_error))
        return found

    def _is_given(self, one: ValueField) -> bool:
        return one.changed or (one.name in self.earlier and not one.is_missing and not _is_emptied(one))


def read_new_run(
    kind: RootKind,
    names: Sequence[InputName],
    earlier: Mapping[str, Any],
    sent: Sent,
    checkpointing: Checkpointing,
    roles: Sequence[str] = (),
) -> NewRunForm:
    """The form, first shown if ``sent`` is None, with the errors of its fields.

    ``names`` are what the source asks for, ``earlier`` the kickoff inputs of a run of the same, ``roles`` its
    agents'.
    """
    stored = _stored(kind, names, earlier)
    kinds = {one.name: KINDS[one.kind] for one in names if one.kind}
    fields = [
        read_value("input", number, name, value, sent, kinds.get(name))
        for number, (name, value) in enumerate(list(stored.items())[:MOST_FIELDS])
    ]
    for one in fields:
        _check_redacted(one)
    inputs = ValueGroup(fields, _more(kind, stored, fields, sent))
    form = NewRunForm(kind.name, inputs, earlier, checkpointing)
    if kind.prompt and sent is not None and form.ungiven:
        fields[0].error = fields[0].error or _("Say what the %(kind)s is asked.") % {"kind": _(kind.label)}
    if kind.can_warm_cache:
        form.models = read_new_models(roles, sent)
    form.timing, form.limits = read_timing(sent), read_limits(sent)
    if sent is not None:
        form.location, form.place = sent.get("location", ""), sent.get("place", "").strip()
    return form


def _stored(
    kind: RootKind, names: Sequence[InputName], earlier: Mapping[str, Any]
) -> dict[str, Any | Missing]:
    """The initial value of each field: the earlier run's, else the source's default.

    A redacted value is missing, so it has to be typed.
    """
    if kind.prompt:
        return {kind.prompt: earlier.get(kind.prompt, MISSING)}
    defaults = {one.name: one.default if one.has_default else MISSING for one in names}
    found = {**defaults, **earlier}
    return {name: MISSING if value == MARKER else value for name, value in found.items()}


def _more(
    kind: RootKind, stored: Mapping[str, Any], fields: list[ValueField], sent: Sent
) -> MoreValues | None:
    if not kind.can_add_inputs:
        return None
    return read_more("input", list(stored)[MOST_FIELDS:], fields, sent)


def _check_redacted(one: ValueField) -> None:
    """An emptied field gives no input; a value with a redacted part has to be replaced."""
    if _is_emptied(one):
        one.error, one.changed = "", False
    elif one.has_redacted_part and not one.changed and not one.error:
        one.error = _("A part of it is redacted: replace the whole value, or empty the field.")


def _is_emptied(one: ValueField) -> bool:
    return one.kind is not Kind.TEXT and not (one.text.strip() or one.json_text.strip())


def _value(one: ValueField) -> Any:
    return one.value if one.changed else one.stored
