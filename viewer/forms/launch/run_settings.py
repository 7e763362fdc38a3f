"""The forms of a run's settings: its breakpoints, and the values that its code reads."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.entry_points import InputName
from viewer.engines.planning.editable import MISSING
from viewer.forms.fields import KINDS, ValueField
from viewer.forms.launch.fork import ValuesForm
from viewer.forms.launch.valid_values import valid_values
from viewer.launching.requests.values import ValueKind, as_json

EVERY = "*"
MAX_BREAKPOINTS = 200


class UnitsField(forms.Field):
    """The names of units, from boxes or from a text with commas."""

    def __init__(self, label: Any, html_id: str) -> None:
        super().__init__(required=False, label=label, widget=forms.SelectMultiple(attrs={"id": html_id}))

    def clean(self, value: Any) -> tuple[str, ...]:
        names = [name.strip() for text in value or () for name in str(text).split(",")]
        found = tuple(dict.fromkeys(name for name in names if name))
        if len(found) > MAX_BREAKPOINTS:
            raise forms.ValidationError(
                _("There are %(most)d breakpoints at most.") % {"most": MAX_BREAKPOINTS}
            )
        return found


class BreakpointsForm(forms.Form):
    """The units before and after which a run stops."""

    stop_before = UnitsField(gettext_lazy("Stop before"), "stop-before")
    stop_after = UnitsField(gettext_lazy("Stop after"), "stop-after")

    def __init__(self, data: Any, units: Sequence[str]) -> None:
        super().__init__(data)
        self.units = tuple(units)

    @property
    def before(self) -> tuple[str, ...]:
        return tuple(valid_values(self).get("stop_before") or ())

    @property
    def after(self) -> tuple[str, ...]:
        return tuple(valid_values(self).get("stop_after") or ())


class NamedValuesForm(ValuesForm):
    """Values that the project's code reads, by their names in its source. An empty field gives no value."""

    def __init__(self, data: Any, group: str, names: Sequence[InputName]) -> None:
        self.kinds = {one.name: KINDS[one.kind] for one in names if one.kind in KINDS}
        # Shown in an empty field, and used by the project's code if the field stays empty.
        self.defaults = {one.name: as_json(one.default) for one in names if one.has_default}
        super().__init__(data, group, {one.name: MISSING for one in names})

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        # A list on separate lines cannot be distinguished from a text that was left empty.
        kind = self.kinds.get(name)
        return ValueField(
            self.group, number, name, stored, ValueKind.JSON if kind is ValueKind.LIST else kind
        )
