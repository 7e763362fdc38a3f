"""The forms of a fork: its branch, its edits, and what a person accepts before the start."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines.editable import MISSING, EditableOutput, StateEntry
from viewer.engines.entry_points import RootKind
from viewer.launching.edits import output_text
from viewer.launching.options import AS_NODE, BRANCH, CODE, INTO, RECORDED, parse_fork_target
from viewer.launching.requests import Accepted
from viewer.launching.values import ValueKind
from viewer.validation import MAX_CHARACTERS
from viewer.web.forms.fields import (
    KINDS,
    ChoiceField,
    MoreValuesField,
    OptionField,
    OutputField,
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
        label=_("Entry point"),
        widget=forms.Select(attrs={"id": "entry-point"}),
        error_messages={"invalid_choice": _("This project has no such entry point.")},
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
        self._offer("as_node", [("", gettext("The last one that ran")), *((name, name) for name in as_nodes)])
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
        self._offer("into", [(name, gettext(label)) for name, label in targets])
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

    ``group`` is input or state. ``can_add`` allows values that are not stored.
    """

    def __init__(self, data: Any, group: str, stored: Mapping[str, Any], *, can_add: bool = True) -> None:
        super().__init__(data)
        self.group = group
        names = list(stored)
        for number, name in enumerate(names[:MAX_FIELDS]):
            self.fields[f"{group}:{name}"] = self.value_field(number, name, stored[name])
        # The names of the values that have no field.
        self.others = names[MAX_FIELDS:]
        if can_add:
            self.fields[self.more_name] = MoreValuesField(group, names[:MAX_FIELDS])

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        """The field of one value."""
        return ValueField(self.group, number, name, stored)

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
        self.kinds = {name: KINDS[entry.kind] for name, entry in entries.items() if entry.kind in KINDS}
        super().__init__(data, "state", {**dict.fromkeys(entries, MISSING), **stored})

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        kind = self.kinds.get(name, ValueKind.JSON)
        return ValueField(
            self.group, number, name, stored, ValueKind.JSON if kind is ValueKind.LIST else kind
        )


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
