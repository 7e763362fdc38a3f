"""The forms of a new run: its inputs and its write target."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.editable import MISSING, Missing
from viewer.engines.entry_points import InputName, RootKind
from viewer.launching.values import ValueKind
from viewer.models import Location, Project
from viewer.redaction import MARKER
from viewer.web.forms.fields import KINDS, Typed, ValueField, valid_values
from viewer.web.forms.fork import ValuesForm


class InputField(ValueField):
    """An input of a new run. An emptied field gives no input: it is cleaned to MISSING."""

    def clean(self, value: Typed) -> Any:
        text = self.stored_text if value.text is None else value.text
        if self.kind is not ValueKind.TEXT and not (text.strip() or value.json.strip()):
            return MISSING
        cleaned = super().clean(value)
        if self.has_redacted_part and cleaned is self.stored:
            message = _("A part of it is redacted: replace the whole value, or empty the field.")
            raise forms.ValidationError(message)
        return cleaned


class InputsForm(ValuesForm):
    """The inputs that the source ``names``, and those of an ``earlier`` run of the same."""

    def __init__(
        self, data: Any, kind: RootKind, names: Sequence[InputName], earlier: Mapping[str, Any]
    ) -> None:
        self.earlier = earlier
        self.kinds = {one.name: KINDS[one.kind] for one in names if one.kind}
        # Where the source names none, they are added by name.
        can_add = kind.can_add_inputs or (kind.has_state and not names)
        super().__init__(data, "input", _initial(kind, names, earlier), can_add=can_add)

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        return InputField(self.group, number, name, stored, self.kinds.get(name))

    @property
    def given(self) -> dict[str, Any]:
        """The inputs, with their types. Defaults of the source are left out."""
        values = valid_values(self)
        given = {
            field.name: values.get(name, field.stored)
            for name, field in self.value_fields.items()
            if self._is_given(name, field)
        }
        return {**given, **values.get(self.more_name, {})}

    @property
    def not_given(self) -> list[str]:
        """The names of inputs that the source requires and that are empty."""
        fields = self.value_fields.items()
        return [field.name for name, field in fields if field.is_missing and not self._is_given(name, field)]

    def _is_given(self, name: str, field: ValueField) -> bool:
        value = valid_values(self).get(name, field.stored)
        return value is not MISSING and (value is not field.stored or field.name in self.earlier)


def _initial(
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


class WriteTargetForm(forms.Form):
    """The location of ``project`` to which a run writes, or in ``new_location`` the path of a new one.

    Without either, the run writes to ``location``.
    """

    location = forms.CharField(
        required=False,
        initial="",
        label=gettext_lazy("Writes to"),
        widget=forms.Select(attrs={"id": "location"}),
    )
    new_location = forms.CharField(
        required=False,
        initial="",
        label=gettext_lazy("New location"),
        widget=forms.TextInput(attrs={"id": "new_location"}),
    )

    def __init__(self, data: Any, project: Project, location: Location) -> None:
        super().__init__(data)
        self.project, self.default = project, location

    def clean(self) -> dict[str, Any]:
        if not self.cleaned_data.get("new_location"):
            self.cleaned_data["location"] = self._chosen(self.cleaned_data.get("location", ""))
        return self.cleaned_data

    @property
    def target(self) -> Location | str | None:
        """The typed path, else the chosen location; None if the chosen one is not the project's."""
        if not self.is_bound:
            return self.default
        values = valid_values(self)
        return None if self.errors else values["new_location"] or values["location"]

    def _chosen(self, uid: str) -> Location | None:
        try:
            found = self.project.locations.filter(uid=UUID(uid or str(self.default.uid))).first()
        except ValueError:
            self.add_error("new_location", _("This location does not exist. Choose another one."))
            return None
        if found is None:
            error = _("This location no longer belongs to the project. Choose another one.")
            self.add_error("new_location", error)
        return found
