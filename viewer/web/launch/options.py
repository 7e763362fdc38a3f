"""The options of every launch page: models, checkpoints, settings, start time and limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField, Form
from django.utils.translation import gettext as _

from viewer.engines.editable import NO_SETTINGS, RunSettings, Schema
from viewer.engines.entry_points import EventGroup, EventPreset, GroupTraits, RootKind
from viewer.engines.protocol import Engine, kind_of
from viewer.host_requests import ListCheckpointEvents, ask
from viewer.launching.options import EVERY_EVENT, EVERY_UNIT
from viewer.launching.requests import LaunchOptions
from viewer.models import Project
from viewer.presentation.run.rows import trigger_label
from viewer.web.forms.options import (
    EVENTS,
    MAX_CHECKPOINTS,
    PRESET,
    BreakpointsForm,
    CheckpointsForm,
    LimitsForm,
    ModelsForm,
    NamedValuesForm,
    StartTimeForm,
    ToolsForm,
)
from viewer.web.launch.edits import ValuesPart, first_error, values_part

# The part of a launch page for the events at which checkpoints are written, and for keeping the latest.


@dataclass(frozen=True, slots=True)
class EventChoice:
    """An event: its name in the engine, its label, and whether it is selected."""

    name: str
    text: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class EventChoices:
    """The events of one of the engine's groups."""

    name: str
    choices: list[EventChoice]
    is_usual: bool = False
    traits: GroupTraits | None = None

    @property
    def title(self) -> str:
        return _(self.traits.label) if self.traits else self.name.replace("_", " ")

    @property
    def is_frequent(self) -> bool:
        return self.traits is not None and self.traits.is_frequent

    @property
    def hint(self) -> str:
        """A hint about selecting these events; may be empty."""
        hints = [_("Frequent: writes many checkpoints.")] if self.is_frequent else []
        if self.traits and self.traits.hint:
            hints.append(_(self.traits.hint))
        return " ".join(hints)

    @property
    def is_open(self) -> bool:
        return self.is_usual or any(choice.is_chosen for choice in self.choices)


@dataclass(frozen=True, slots=True)
class CheckpointsPart:
    """``groups`` are the engine's events, ``before`` those that apply if none is selected."""

    form: CheckpointsForm
    groups: list[EventChoices]
    before: tuple[str, ...] = ()
    presets: tuple[EventPreset, ...] = ()

    @property
    def preset(self) -> str:
        """The name of the selected preset; empty if none is."""
        return str(self.form[PRESET].value() or "")

    @property
    def shows_all(self) -> bool:
        """Whether the list of all events is initially open."""
        return bool(self.events.value()) or not self.presets

    @property
    def events(self) -> BoundField:
        return self.form[EVENTS]

    @property
    def max_field(self) -> BoundField:
        return self.form[MAX_CHECKPOINTS]

    @property
    def max_text(self) -> str:
        return str(self.max_field.value() or "")

    @property
    def chosen(self) -> list[str]:
        """The selected events, valid or not."""
        preset = self.preset.split(",") if self.preset else []
        return list(dict.fromkeys([*preset, *(self.events.value() or ())]))

    @property
    def is_open(self) -> bool:
        return bool(self.chosen or self.max_text or self.form.errors)

    @property
    def takes_every(self) -> bool:
        return EVERY_EVENT in self.chosen

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        events = self.chosen or self.before
        shown = ", ".join(trigger_label(one) for one in events[:3]) + (" …" if len(events) > 3 else "")
        if self.takes_every:
            shown = _("at every event")
        if not self.chosen:
            shown = _("unchanged: %(events)s") % {"events": shown} if shown else _("project settings")
        latest = self.form.settings.get("max_checkpoints")
        if latest is not None:
            shown += ", " + _("keep the latest %(count)d") % {"count": latest}
        return shown

    @property
    def warning(self) -> str:
        """A warning about the choices; may be empty."""
        often = {choice.name for group in self.groups if group.is_frequent for choice in group.choices}
        if "max_checkpoints" not in self.form.settings and (self.takes_every or often & set(self.chosen)):
            return _(
                "This writes many checkpoints, each with the whole record so far. Keep only some of them."
            )
        return ""


def checkpoints_part(
    engine: Engine[Any], project: Project | None, entity: str, before: Sequence[str], data: Any
) -> CheckpointsPart:
    """The part, in its initial state if ``data`` is None. ``entity`` is the name of a root kind."""
    asked = ListCheckpointEvents(engine.name, project.interpreter if project else "")
    groups = ask(asked, host=project.host_id if project else None)
    return part_of_groups(engine, groups, entity, before, data)


def part_of_groups(
    engine: Engine[Any], groups: Sequence[EventGroup], entity: str, before: Sequence[str], data: Any
) -> CheckpointsPart:
    """The part for these groups of events. A kind without usual events has no choice of them."""
    kind = kind_of(engine, entity)
    groups = groups if kind.usual_events else ()
    known = [name for group in groups for name in group.events]
    presets = tuple(preset for preset in kind.event_presets if set(preset.events) <= set(known))
    form = CheckpointsForm(data)
    ticked = form[EVENTS].value() or ()
    choices = [
        EventChoices(
            group.name,
            [EventChoice(name, trigger_label(name), name in ticked) for name in group.events],
            is_usual=group.name == kind.usual_events,
            traits=engine.event_groups.get(group.name),
        )
        for group in groups
    ]
    return CheckpointsPart(form, choices, tuple(before), presets)


# The part of a launch page for a run's settings: breakpoints, configurable values and context.


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
        names = [*(name for name in names if name != EVERY_UNIT), EVERY_UNIT]
        labels = {EVERY_UNIT: _("every node")}
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


# The option parts of every launch page: models, checkpoints, start time and limits.


@dataclass(frozen=True, slots=True)
class OptionParts:
    """All option parts, in the order of the page."""

    models: ModelsForm
    checkpointing: CheckpointsPart
    timing: StartTimeForm
    limits: LimitsForm
    # None for kinds without run settings.
    settings: RunSettingsPart | None = None
    # None for a new run, which has no record of calls.
    tools: ToolsForm | None = None

    @property
    def forms(self) -> Sequence[Form]:
        of_settings = self.settings.forms if self.settings else ()
        of_tools = (self.tools,) if self.tools else ()
        return (self.models, *of_settings, self.checkpointing.form, self.timing, self.limits, *of_tools)

    @property
    def request_values(self) -> dict[str, Any]:
        """The fields of a launch request with the choices."""
        return {
            "models": self.models.chosen,
            "cache_warmup": self.models.strategy,
            "checkpointing": self.checkpointing.form.settings,
            "settings": self.settings.values if self.settings else NO_SETTINGS,
            "options": LaunchOptions(
                self.timing.at, self.limits.limits, waits_for_host=bool(self.timing["waits_for_host"].value())
            ),
            **(self.tools.request_values if self.tools else {}),
        }
