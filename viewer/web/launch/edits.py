"""The forms of a fork, and the parts of a page that show its edits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.entry_points import RootKind
from viewer.engines.plan import MISSING, Editable, EditableOutput, StateEntry
from viewer.launching.edits import ValueKind, added_value, as_json, output_text
from viewer.launching.options import AS_NODE, BRANCH, CODE, INTO, RECORDED, parse_fork_target
from viewer.launching.requests import Accepted
from viewer.presentation.diff import Piece, difference
from viewer.redaction import MARKER
from viewer.redaction.names import secrecy_of
from viewer.validation import MAX_CHARACTERS
from viewer.web.fields import (
    KINDS,
    ChoiceField,
    MoreValuesField,
    OptionField,
    OutputField,
    Typed,
    ValueField,
    valid_values,
)

# The forms of a fork: its branch and entry point, and the edits of what a checkpoint holds.


# Further values are edited as one JSON object, as a longer page would be hard to use.
MAX_FIELDS = 60
# Of all outputs together: the server accepts no larger form.
MAX_BYTES = 1_500_000
AGAIN_STALE = "again-stale"


class EntryPointForm(forms.Form):
    """The entry point of a resume, one of ``entry_points`` or none."""

    entry_point = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Entry point"),
        widget=forms.Select(attrs={"id": "entry-point"}),
        error_messages={"invalid_choice": gettext_lazy("This project has no such entry point.")},
    )

    def __init__(self, data: Any, entry_points: Sequence[str], proposed: Mapping[str, str]) -> None:
        super().__init__(data, initial=dict(proposed))
        self._offer("entry_point", [("", ""), *((name, name) for name in entry_points)])

    @property
    def chosen_entry_point(self) -> str:
        """The chosen entry point, empty if it is not valid; the proposed one if nothing was sent."""
        return self._value("entry_point")

    def _offer(self, name: str, choices: Sequence[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def _value(self, name: str) -> str:
        return str((valid_values(self) if self.is_bound else self.initial).get(name) or "")


class BranchForm(EntryPointForm):
    """The branch of a fork, or that with which those of a sweep begin, and the unit of an edited state."""

    branch = OptionField(BRANCH, "branch")
    as_node = ChoiceField(AS_NODE, "as-node", **{"class": "input input-mono"})
    code = ChoiceField(CODE, "code")

    def __init__(
        self,
        data: Any,
        entry_points: Sequence[str],
        proposed: Mapping[str, str],
        as_nodes: Sequence[str] = (),
    ) -> None:
        super().__init__(data, entry_points, proposed)
        self.fields[AGAIN_STALE] = forms.CharField(required=False)
        self._offer("as_node", [("", _("The last one that ran")), *((name, name) for name in as_nodes)])
        self.has_nodes = bool(as_nodes)

    @property
    def branch_name(self) -> str:
        """The typed name; empty if it is to be named for its edits."""
        return self._value("branch")

    @property
    def runs_stale_again(self) -> bool:
        """Whether all stale steps are to run again."""
        return bool(valid_values(self).get(AGAIN_STALE))

    @property
    def chosen_node(self) -> str:
        """The node that the edited state is attributed to; empty if the engine decides."""
        return str(valid_values(self).get("as_node") or "")

    @property
    def uses_recorded_code(self) -> bool:
        return valid_values(self).get("code") == RECORDED


class ForkForm(BranchForm):
    """The branch, and the units that ``again`` runs again and ``keep`` does not."""

    into = ChoiceField(INTO, "into", **{"class": "input", "aria-describedby": "into-hint"})
    again = forms.Field(required=False, widget=forms.SelectMultiple)
    keep = forms.Field(required=False, widget=forms.SelectMultiple)

    def __init__(
        self,
        data: Any,
        entry_points: Sequence[str],
        proposed: Mapping[str, str],
        as_nodes: Sequence[str],
        kind: RootKind,
    ) -> None:
        super().__init__(data, entry_points, proposed, as_nodes)
        targets = kind.fork_targets if kind.publishes_at_end else ()
        self._offer("into", [(name, _(label)) for name, label in targets])
        into = self.fields["into"]
        assert isinstance(into, ChoiceField)
        into.parse = partial(parse_fork_target, kind=kind)

    @property
    def target(self) -> str:
        """Where the fork is published at its end; empty if it stays where it runs."""
        return str(valid_values(self).get("into") or "")

    def leave_only_entry_point(self) -> None:
        """Remove the fields that a resume does not have: all other values are empty."""
        self.fields = {name: self.fields[name] for name in ("entry_point", "code")}
        self.has_nodes = False

    @property
    def units_again(self) -> frozenset[str]:
        return frozenset(valid_values(self).get("again") or ())

    @property
    def units_kept(self) -> frozenset[str]:
        return frozenset(valid_values(self).get("keep") or ())


class ValuesForm(forms.Form):
    """A field for each kickoff input, or for each entry of the state, in ``stored``.

    ``group`` is input or state. ``can_add`` allows values that are not stored. ``kinds`` has the kinds of
    values that are missing.
    """

    def __init__(
        self,
        data: Any,
        group: str,
        stored: Mapping[str, Any],
        *,
        can_add: bool = True,
        kinds: Mapping[str, ValueKind] | None = None,
    ) -> None:
        super().__init__(data)
        self.group, self.kinds = group, kinds or {}
        names = list(stored)
        for number, name in enumerate(names[:MAX_FIELDS]):
            self.fields[f"{group}:{name}"] = self.value_field(number, name, stored[name])
        # The names of the values that have no field.
        self.others = names[MAX_FIELDS:]
        if can_add:
            self.fields[self.more_name] = MoreValuesField(group, names[:MAX_FIELDS])

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        """The field of one value."""
        # A list on separate lines cannot be distinguished from a text that was left empty.
        kind = self.kinds.get(name)
        return ValueField(
            self.group, number, name, stored, ValueKind.JSON if kind is ValueKind.LIST else kind
        )

    @property
    def more_name(self) -> str:
        """The name of the field of further values."""
        return f"{self.group}-more"

    @property
    def value_fields(self) -> dict[str, ValueField]:
        """The field of each value, by the name under which a browser sends it."""
        return {name: field for name, field in self.fields.items() if isinstance(field, ValueField)}

    @property
    def changes(self) -> dict[str, Any]:
        """The values that differ from the stored ones, by name."""
        values, fields = valid_values(self), self.value_fields
        changed = {
            field.name: values[name]
            for name, field in fields.items()
            if values.get(name, MISSING) is not MISSING and values[name] is not field.stored
        }
        return {**changed, **values.get(self.more_name, {})}


class StateForm(ValuesForm):
    """A field for each stored entry of the state, and for each of ``entries``, which have no value."""

    def __init__(self, data: Any, stored: Mapping[str, Any], entries: Mapping[str, StateEntry]) -> None:
        values = {**dict.fromkeys(entries, MISSING), **stored}
        known = {name: KINDS[entry.kind] for name, entry in entries.items() if entry.kind in KINDS}
        super().__init__(data, "state", values, kinds={**dict.fromkeys(values, ValueKind.JSON), **known})


class OutputsForm(forms.Form):
    """A field for each finished unit's output.

    ``too_long`` are the units whose output would make the form too large to send: they have no field.
    """

    def __init__(self, data: Any, outputs: Sequence[EditableOutput]) -> None:
        super().__init__(data)
        self.too_long: set[str] = set()
        left = MAX_BYTES
        for output in outputs:
            text = output_text(output)
            left -= len(text.encode(errors="replace"))
            if left < 0 or len(text) > MAX_CHARACTERS:
                self.too_long.add(output.unit)
            else:
                self.fields[output_name(output.unit)] = OutputField(output)

    @property
    def changes(self) -> dict[str, Any]:
        """The edits, by unit."""
        values = valid_values(self)
        fields = {name: field for name, field in self.fields.items() if isinstance(field, OutputField)}
        return {
            field.output.unit: values[name] for name, field in fields.items() if values.get(name) is not None
        }


def output_name(unit: str) -> str:
    """The name of the unit's field."""
    return f"output:{unit}"


# The form of what a person accepts and answers before a start.


# The names of the fields, which no Python name can be.
ACCEPT_REDACTED, ACCEPT_EFFECTS, ACCEPT_CODE = "accept-hidden", "accept-effects", "accept-code"
ANSWER = "match:"


class PreflightForm(forms.Form):
    """``check`` and ``accept-effects`` are the buttons that start the check and accept what it listed.

    ``accepted``, ``accept-hidden`` and ``accept-code`` are the digests of the losses, the redacted parts and
    the code of another host.
    """

    check = forms.CharField(required=False)
    accepted = forms.CharField(required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        answers = [name for name in data or () if name.startswith(ANSWER)]
        for name in (ACCEPT_REDACTED, ACCEPT_EFFECTS, ACCEPT_CODE, *answers):
            self.fields[name] = forms.CharField(required=False, strip=False)

    @property
    def accepted_by_person(self) -> Accepted:
        """The digests of the redacted parts, the losses and the code that the person accepted."""
        values = valid_values(self)
        return Accepted(
            redacted_parts=values.get(ACCEPT_REDACTED, ""),
            losses=values.get("accepted", ""),
            code=values.get(ACCEPT_CODE, ""),
        )

    @property
    def accepted_effects(self) -> str:
        """The digest of the effects that the person accepted with the button."""
        return str(valid_values(self).get(ACCEPT_EFFECTS, ""))

    @property
    def starts_check(self) -> bool:
        """Whether the button was pressed that starts the check."""
        return bool(valid_values(self).get("check"))

    @property
    def answers(self) -> dict[str, str]:
        """The chosen one of the project, by the id of the saved one."""
        values = valid_values(self)
        return {name.removeprefix(ANSWER): text for name, text in values.items() if name.startswith(ANSWER)}


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

    value: ValueField
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
        typed = self.value.clean(self.typed)
        added = as_json(added_value(self.value.stored, typed))
        return _("The reducer receives: %(value)s") % {"value": added}

    @property
    def is_private(self) -> bool:
        """Whether its typed value may be a secret."""
        value = self.value
        return value.is_secret or value.has_redacted_part or bool(secrecy_of(value.name))

    @property
    def kind_label(self) -> str:
        return str(KIND_LABELS[self.value.kind])

    @property
    def stored_text(self) -> str:
        """The stored value as text, shown next to its field."""
        return shown_text(self.value)

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
