"""The part of a launch page for a run's settings: breakpoints, configurable values and context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.forms import Form
from django.utils.translation import gettext as _

from viewer.engines.planning.run_settings import RunSettings
from viewer.engines.planning.schema import Schema
from viewer.engines.root_kinds import RootKind
from viewer.forms.launch.run_settings import EVERY, BreakpointsForm, NamedValuesForm
from viewer.presentation.launch.edit_parts import ValuesPart, first_error, values_part


@dataclass(frozen=True, slots=True)
class BreakpointRow:
    """A unit, and whether the run stops before and after it."""

    name: str
    label: str
    stops_before: bool
    stops_after: bool


@dataclass(frozen=True, slots=True)
class RunSettingsPart:
    """The forms with their typed values."""

    breakpoints: BreakpointsForm
    configurable: ValuesPart
    context: ValuesPart

    @property
    def forms(self) -> Sequence[Form]:
        return (self.breakpoints, self.configurable.form, self.context.form)

    @property
    def values(self) -> RunSettings:
        """The chosen settings."""
        return RunSettings(
            self.breakpoints.before,
            self.breakpoints.after,
            self.configurable.form.changes,
            self.context.form.changes,
        )

    @property
    def rows(self) -> list[BreakpointRow]:
        """A row for each known or typed unit, and a last one for all units."""
        before, after = self.breakpoints.before, self.breakpoints.after
        names = [*dict.fromkeys((*self.breakpoints.units, *before, *after))]
        names = [*(name for name in names if name != EVERY), EVERY]
        labels = {EVERY: _("every node")}
        return [BreakpointRow(name, labels.get(name, name), name in before, name in after) for name in names]

    @property
    def error(self) -> str:
        """The first error of the breakpoints; empty if they are valid."""
        return first_error(self.breakpoints["stop_before"]) or first_error(self.breakpoints["stop_after"])

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        chosen = self.values
        shown = [_("before %s") % ", ".join(chosen.stop_before)] if chosen.stop_before else []
        shown += [_("after %s") % ", ".join(chosen.stop_after)] if chosen.stop_after else []
        # Only the names, since the values may be secrets.
        return ", ".join([*shown, *chosen.configurable, *chosen.context]) or _("none")

    @property
    def is_open(self) -> bool:
        """Whether this part of the page is initially open."""
        return bool(self.values) or any(form.errors for form in self.forms)


def run_settings_part(kind: RootKind, schema: Schema, data: Any) -> RunSettingsPart | None:
    """The part, in its initial state if ``data`` is None. Returns None for kinds without run settings."""
    if not kind.has_run_settings:
        return None
    return RunSettingsPart(
        BreakpointsForm(data, schema.units),
        values_part(NamedValuesForm(data, "configurable", schema.configurable)),
        values_part(NamedValuesForm(data, "context", schema.context)),
    )
