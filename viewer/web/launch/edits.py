"""The parts of a launch page for stored values and outputs, with their edits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.editable import Editable, EditableOutput
from viewer.launching.edits import added_value, output_text
from viewer.launching.values import ValueKind, as_json
from viewer.presentation.diff import Piece, difference
from viewer.redaction import MARKER
from viewer.redaction.names import secrecy_of
from viewer.web.forms.fields import Typed, ValueField, valid_values
from viewer.web.forms.fork import OutputsForm, ValuesForm, output_name

# Whether an edit replaces a value or goes through its reducer.


class ModeField(forms.ChoiceField):
    """How an edit of an entry with this ``reducer`` is written; empty if its name is unknown."""

    def __init__(self, reducer: str, **options: Any) -> None:
        super().__init__(**options)
        self.reducer = reducer


class ModesForm(forms.Form):
    """For each entry with a reducer: whether an edit replaces its value or goes through the reducer.

    ``reducers`` has the reducer's name by entry, None where it is unknown.
    """

    def __init__(self, data: Any, reducers: Mapping[str, str | None], by_id: Sequence[str] = ()) -> None:
        super().__init__(data)
        self.by_id = set(by_id)
        for number, (name, reducer) in enumerate(reducers.items()):
            add = _("Add with %(reducer)s") % {"reducer": reducer or _("its reducer")}
            choices = [("replace", _("Replace the value")), ("add", add)]
            self.fields[f"mode:{name}"] = ModeField(
                reducer or "",
                required=False,
                choices=choices,
                initial="add" if name in self.by_id else "replace",
                label=_("Edit of %(name)s") % {"name": name},
                widget=forms.Select(attrs={"id": f"mode-{number}"}),
            )

    def adds(self, name: str) -> bool:
        """Whether an edit of this entry goes through its reducer."""
        field = self.fields.get(f"mode:{name}")
        if field is None:
            return False
        return bool((valid_values(self).get(f"mode:{name}") or field.initial) == "add")


# The parts of a page for stored values and outputs.


KIND_LABELS = {
    ValueKind.TEXT: gettext_lazy("text"),
    ValueKind.WHOLE_NUMBER: gettext_lazy("whole number"),
    ValueKind.NUMBER: gettext_lazy("number"),
    ValueKind.YES_NO: gettext_lazy("yes or no"),
    ValueKind.LIST: gettext_lazy("list, one item per line"),
    ValueKind.JSON: gettext_lazy("JSON"),
}
# A text up to this length initially has a field of one line.
SHORT = 80


def editable_parts(
    edited: Editable, conversations: Collection[str], can_edit_outputs: bool
) -> frozenset[str]:
    """What a fork's form has a field for, as links to it name it: ``state:topic`` or ``messages:history:3``.

    ``conversations`` are the entries of the state whose messages are edited one by one.
    """
    found = [f"inputs:{name}" for name in edited.inputs or ()]
    found += [f"state:{name}" for name in edited.state or ()]
    found += [f"outputs:{one.unit}" for one in edited.outputs if can_edit_outputs]
    for name in conversations:
        found += [f"messages:{name}:{message.position}" for message in edited.conversations[name]]
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of a form, with what pages show of it."""

    bound: BoundField

    @property
    def html_id(self) -> str:
        return self.bound.id_for_label

    @property
    def error(self) -> str:
        return first_error(self.bound)


@dataclass(frozen=True, slots=True)
class ValueView(FieldView):
    """A kickoff input or an entry of the state."""

    field: ValueField
    changed: bool
    # How an edit is written, if the entry may have a reducer.
    mode: BoundField | None = None
    adds: bool = False

    @property
    def reducer(self) -> str:
        """The name of the entry's reducer; empty if it has no known reducer."""
        return str(getattr(self.mode.field, "reducer", "")) if self.mode else ""

    @property
    def effect(self) -> str:
        """What the edit does to an entry that may have a reducer; empty without an edit."""
        if self.mode is None or not self.changed:
            return ""
        if not self.adds:
            return _("Replaces the value. The reducer is not called.")
        typed = self.field.clean(self.typed)
        added = as_json(added_value(self.field.stored, typed))
        return _("The reducer receives: %(value)s") % {"value": added}

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def json_name(self) -> str:
        return self.field.json_name

    @property
    def kind(self) -> ValueKind:
        return self.field.kind

    @property
    def is_missing(self) -> bool:
        return self.field.is_missing

    @property
    def is_secret(self) -> bool:
        return self.field.is_secret

    @property
    def has_redacted_part(self) -> bool:
        return self.field.has_redacted_part

    @property
    def is_private(self) -> bool:
        """Whether its typed value may be a secret."""
        return self.is_secret or self.has_redacted_part or bool(secrecy_of(self.name))

    @property
    def kind_label(self) -> str:
        return str(KIND_LABELS[self.kind])

    @property
    def stored_text(self) -> str:
        """The stored value as text, shown next to its field."""
        return shown_text(self.field)

    @property
    def typed(self) -> Typed:
        value: Typed = self.bound.value()
        return value

    @property
    def rows(self) -> int:
        text = self.typed.text or ""
        return min(12, max(1, text.count("\n") + 1, len(text) // SHORT))


def first_error(bound: BoundField) -> str:
    """The first error of the field; empty if it is valid."""
    return str(bound.errors[0]) if bound.errors else ""


def shown_text(field: ValueField) -> str:
    """The stored value as text; empty if it is missing or a secret."""
    if field.is_missing or field.is_secret:
        return ""
    return ", ".join(field.stored) if field.kind is ValueKind.LIST else field.stored_text


@dataclass(frozen=True, slots=True)
class ValuesPart:
    """The kickoff inputs, or the state."""

    form: ValuesForm
    fields: list[ValueView]

    @property
    def more(self) -> BoundField | None:
        """The field for further values; None if there cannot be any."""
        return self.form[self.form.more_name] if self.form.more_name in self.form.fields else None

    @property
    def changed_ids(self) -> list[str]:
        """The ids of the fields with an edit."""
        return [one.html_id for one in self.fields if one.changed]


def values_part(form: ValuesForm, modes: ModesForm | None = None) -> ValuesPart:
    """The part of this form, with the modes of entries that may have a reducer."""
    changes, views = form.changes, []
    for name, one in form.value_fields.items():
        mode, adds = None, False
        if modes is not None and f"mode:{one.name}" in modes.fields:
            mode, adds = modes[f"mode:{one.name}"], modes.adds(one.name)
        views.append(ValueView(form[name], one, one.name in changes, mode, adds))
    return ValuesPart(form, views)


@dataclass(frozen=True)
class OutputView:
    """The output of a finished unit. ``bound`` is None if it is too long to be edited."""

    output: EditableOutput
    bound: BoundField | None
    changed: bool

    @property
    def unit(self) -> str:
        return self.output.unit

    @property
    def position(self) -> int:
        return self.output.position

    @property
    def title(self) -> str:
        return self.output.title

    @property
    def agent(self) -> str:
        return self.output.agent

    @property
    def html_id(self) -> str:
        return f"output-{self.position}"

    @property
    def error(self) -> str:
        return first_error(self.bound) if self.bound else ""

    @cached_property
    def stored(self) -> str:
        return output_text(self.output)

    @property
    def text(self) -> str:
        return str(self.bound.value()) if self.bound else self.stored

    @property
    def is_json(self) -> bool:
        return self.output.value is not None

    @property
    def word_count(self) -> int:
        return len(self.stored.split())

    @property
    def is_open(self) -> bool:
        """Whether its editor is initially open."""
        return self.changed or bool(self.error)

    @property
    def has_redacted_part(self) -> bool:
        return MARKER in self.stored

    @property
    def before(self) -> list[Piece]:
        """The stored text, with the replaced parts marked."""
        return self._pieces[0]

    @property
    def after(self) -> list[Piece]:
        """The edited text, with the new parts marked."""
        return self._pieces[1]

    @cached_property
    def _pieces(self) -> tuple[list[Piece], list[Piece]]:
        text = self.text.replace("\r\n", "\n") if self.changed else self.stored
        return difference(self.stored.replace("\r\n", "\n"), text)


def output_views(form: OutputsForm, outputs: Sequence[EditableOutput]) -> list[OutputView]:
    """The view of each output."""
    changes = form.changes
    return [
        OutputView(
            one,
            None if one.unit in form.too_long else form[output_name(one.unit)],
            one.unit in changes,
        )
        for one in outputs
    ]
