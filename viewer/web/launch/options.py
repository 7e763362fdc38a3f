"""The options of a run: their forms, and the parts of a page that show them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.forms import Form
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_of
from viewer.engines.entry_points import EventGroup, GroupTraits, InputName, RootKind
from viewer.engines.plan import MISSING, NO_SETTINGS, RunSettings, Schema
from viewer.engines.protocol import Contents, Engine, kind_of
from viewer.engines.recorded_calls import ModelChoice, ToolChoice
from viewer.engines.runner_protocol import CheckpointSettings
from viewer.formats import short_moment
from viewer.host_requests import ListCheckpointEvents, ask
from viewer.launching import options
from viewer.launching.edits import as_json
from viewer.launching.labels import MODEL_CHOICES, tool_choice_label
from viewer.launching.options import (
    ALL_AGENTS,
    EVERY_EVENT,
    EVERY_UNIT,
    STRATEGIES,
    can_warm_cache,
    changed_models,
    parse_cache_warmup,
    parse_limit,
    parse_start_time,
    stored_models,
)
from viewer.launching.requests import LaunchOptions
from viewer.models import Project
from viewer.presentation.jobs.status import amount
from viewer.presentation.run.branches import trigger_label
from viewer.records.annotations import has_changed
from viewer.redaction import MARKER
from viewer.web.fields import KINDS, ChoiceField, OptionField, UnitsField, parsed, valid_values
from viewer.web.launch.edits import ValuesForm, ValuesPart, first_error, values_part

# The form for the events at which checkpoints are written, and for keeping the latest.


EVENTS = "checkpoint_events"
PRESET = "checkpoint_preset"
MAX_CHECKPOINTS = "max_checkpoints"


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


class CheckpointsForm(forms.Form):
    """The events, those of a preset and others. Whether the project's engine has them is checked later.

    ``known`` are the engine's events, ``before`` those that apply if none is selected. A kind without usual
    events has no choice of them.
    """

    checkpoint_preset = forms.CharField(required=False, label=options.EVENTS.label)
    checkpoint_events = forms.Field(
        required=False,
        label=options.EVENTS.label,
        widget=forms.SelectMultiple(attrs={"id": "checkpoint-events"}),
    )
    max_checkpoints = OptionField(options.KEEP_LATEST, "max-checkpoints")

    def __init__(
        self, data: Any, engine: Engine[Any], entity: str, known: Sequence[EventGroup], before: Sequence[str]
    ) -> None:
        super().__init__(data)
        kind, self.before = kind_of(engine, entity), before
        known = known if kind.usual_events else ()
        names = {name for group in known for name in group.events}
        self.presets = [preset for preset in kind.event_presets if names.issuperset(preset.events)]
        ticked = self[EVENTS].value() or ()
        self.groups = [
            EventChoices(
                group.name,
                [EventChoice(name, trigger_label(name), name in ticked) for name in group.events],
                is_usual=group.name == kind.usual_events,
                traits=engine.event_groups.get(group.name),
            )
            for group in known
        ]

    @property
    def settings(self) -> CheckpointSettings:
        """The settings of a request: only those that were chosen."""
        values, chosen = valid_values(self), CheckpointSettings()
        preset = str(values.get(PRESET) or "")
        events = [*(preset.split(",") if preset else ()), *(values.get(EVENTS) or ())]
        if events:
            chosen["events"] = list(dict.fromkeys(events))
        if values.get(MAX_CHECKPOINTS) is not None:
            chosen["max_checkpoints"] = values[MAX_CHECKPOINTS]
        return chosen

    @property
    def preset(self) -> str:
        """The name of the selected preset; empty if none is."""
        return str(self[PRESET].value() or "")

    @property
    def shows_all(self) -> bool:
        """Whether the list of all events is initially open."""
        return bool(self[EVENTS].value()) or not self.presets

    @property
    def max_text(self) -> str:
        return str(self[MAX_CHECKPOINTS].value() or "")

    @property
    def chosen(self) -> list[str]:
        """The selected events, valid or not."""
        preset = self.preset.split(",") if self.preset else []
        return list(dict.fromkeys([*preset, *(self[EVENTS].value() or ())]))

    @property
    def is_open(self) -> bool:
        return bool(self.chosen or self.max_text or self.errors)

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
        latest = self.settings.get("max_checkpoints")
        if latest is not None:
            shown += ", " + _("keep the latest %(count)d") % {"count": latest}
        return shown

    @property
    def warning(self) -> str:
        """A warning about the choices; may be empty."""
        often = {choice.name for group in self.groups if group.is_frequent for choice in group.choices}
        if "max_checkpoints" not in self.settings and (self.takes_every or often & set(self.chosen)):
            return _(
                "This writes many checkpoints, each with the whole record so far. Keep only some of them."
            )
        return ""


def checkpoints_form(
    engine: Engine[Any], project: Project | None, entity: str, before: Sequence[str], data: Any
) -> CheckpointsForm:
    """The form, in its initial state if ``data`` is None. ``entity`` is the name of a root kind."""
    asked = ListCheckpointEvents(engine.name, project.interpreter if project else "")
    known = ask(asked, host=project.host_id if project else None)
    return CheckpointsForm(data, engine, entity, known, before)


# The form for the models of agents and the prompt cache warm-up.


CACHE_WARMUP = "cache_warmup"


class ModelField(OptionField):
    """The model of one role, or of all. It is unchanged if empty; ``stored`` is the checkpoint's."""

    def __init__(self, role: str, html_id: str, stored: str) -> None:
        self.role, self.stored = role, stored
        super().__init__(options.MODEL, html_id)

    @property
    def is_all(self) -> bool:
        return self.role == ALL_AGENTS


class ModelsForm(forms.Form):
    """A field for each role in ``stored``, with its model, and the strategy to warm up the prompt cache."""

    cache_warmup = ChoiceField(options.CACHE_WARMUP, CACHE_WARMUP)

    def __init__(self, data: Any, stored: Mapping[str, str], *, may_warm_up: bool) -> None:
        super().__init__(data)
        self.may_warm_up = may_warm_up
        roles = [role for role in stored if role != ALL_AGENTS]
        numbers = {ALL_AGENTS: "all"} | {role: str(number) for number, role in enumerate(roles, 1)}
        for role, model in stored.items():
            self.fields[name_of(role)] = ModelField(role, f"model-{numbers[role]}", model)
        cache_warmup = self.fields[CACHE_WARMUP]
        assert isinstance(cache_warmup, ChoiceField)
        cache_warmup.parse = partial(parse_cache_warmup, may_warm_up=may_warm_up)
        cache_warmup.choices = [("", gettext_lazy("Off")), *(STRATEGIES.items() if may_warm_up else ())]
        self.order_fields([*map(name_of, stored), CACHE_WARMUP])

    @property
    def model_fields(self) -> list[forms.BoundField]:
        """The field of each role."""
        return [field for field in self if field.name != CACHE_WARMUP]

    @property
    def strategies(self) -> list[tuple[str, str]]:
        """The ways to warm up the prompt cache, with their labels."""
        return [(name, str(text)) for name, text in STRATEGIES.items()]

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        chosen = self.chosen.items()
        shown = [f"{_('all') if role == ALL_AGENTS else role}: {model}" for role, model in chosen]
        if self.strategy:
            shown.append(_("prompt cache warm-up"))
        return ", ".join(shown) or _("as they are")

    @property
    def is_open(self) -> bool:
        """Whether this part of the page is initially open."""
        return bool(self.chosen or self.strategy or self.errors)

    @property
    def chosen(self) -> dict[str, str]:
        """The models that differ from the stored ones, by role."""
        values = valid_values(self)
        fields = {name: field for name, field in self.fields.items() if isinstance(field, ModelField)}
        models = {field.role: values.get(name) for name, field in fields.items()}
        return changed_models(models, {field.role: field.stored for field in fields.values()})

    @property
    def strategy(self) -> str:
        """One of STRATEGIES, or empty."""
        return str(valid_values(self).get(CACHE_WARMUP, ""))


def models_form(contents: Contents, data: Any) -> ModelsForm:
    """The form for a launch from this checkpoint, empty if its kind has no agents."""
    if not kind_of(engine_of(contents), contents.kind).has_models:
        return no_models_form()
    return ModelsForm(data, stored_models(contents), may_warm_up=can_warm_cache(contents))


def new_models_form(roles: Sequence[str], data: Any) -> ModelsForm:
    """The form for a new run, whose agents are not known before it starts.

    ``roles`` are those of an earlier run. Their models may have changed, so none is shown. A role with a
    redacted part is left out.
    """
    whole = [role for role in roles if MARKER not in role]
    return ModelsForm(data, dict.fromkeys([ALL_AGENTS, *whole], ""), may_warm_up=True)


def no_models_form() -> ModelsForm:
    """A form without fields of models, which nothing was sent to."""
    return ModelsForm(None, {}, may_warm_up=False)


def name_of(role: str) -> str:
    """The name of the role's field."""
    return f"model:{role}"


# The forms of a run's settings: its breakpoints, and the values that its code reads.


class BreakpointsForm(forms.Form):
    """The units before and after which a run stops."""

    stop_before = UnitsField(options.STOP_BEFORE)
    stop_after = UnitsField(options.STOP_AFTER)

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
        # Shown in an empty field, and used by the project's code if the field stays empty.
        self.defaults = {one.name: as_json(one.default) for one in names if one.has_default}
        kinds = {one.name: KINDS[one.kind] for one in names if one.kind in KINDS}
        super().__init__(data, group, {one.name: MISSING for one in names}, kinds=kinds)


# The form of the start time: now, or a time in the server's time zone.


NOW, LATER = "now", "later"


class StartTimeForm(forms.Form):
    """A typed time applies whatever is chosen: starting too late is better than starting now."""

    start = forms.ChoiceField(
        required=False,
        label=options.AT.label,
        choices=[(NOW, gettext_lazy("Now")), (LATER, gettext_lazy("At this time"))],
        widget=forms.Select(attrs={"id": "when"}),
    )
    start_at = OptionField(options.AT, "start-at")
    waits_for_host = forms.BooleanField(
        required=False, label=gettext_lazy("Host"), widget=forms.CheckboxInput(attrs={"id": "waits-for-host"})
    )

    def clean_start_at(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["start_at"]
        if moment is None and self.cleaned_data.get("start") == LATER:
            moment = parsed(lambda: parse_start_time(""))
        return moment

    @property
    def at(self) -> datetime | None:
        """The start time, None for now."""
        return valid_values(self).get("start_at")

    @property
    def text(self) -> str:
        return str(self["start_at"].value() or "")

    @property
    def is_later(self) -> bool:
        return bool(self.text or self["start"].value() == LATER)

    @property
    def zone(self) -> str:
        """The name of the server's time zone."""
        return timezone.get_current_timezone_name()

    @property
    def server_time(self) -> datetime:
        return timezone.localtime()

    @property
    def summary(self) -> str:
        """A short label of the choice."""
        return short_moment(self.at) if self.at else _("now")


# The form for what happens when a run calls tools.


# Precedes the name of a tool in the name of its field.
TOOL_FIELD = "tool:"


class ModelCallsField(ChoiceField):
    """What happens when the runs call a model; empty if nothing was sent."""

    def __init__(self) -> None:
        attrs = {"class": "input", "aria-describedby": "model-calls-hint"}
        super().__init__(options.MODEL_CALLS, "model-calls", **attrs)
        self.choices = [(choice.value, label) for choice, label in MODEL_CHOICES.items()]


class ToolsForm(forms.Form):
    """What happens when the run calls a tool, for each tool that was sent, and when it calls a model."""

    dry_run = forms.BooleanField(required=False)
    model_calls = ModelCallsField()

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        for number, name in enumerate([name for name in data or () if name.startswith(TOOL_FIELD)], 1):
            self.fields[name] = OptionField(options.TOOL, f"tool-{number}")

    @property
    def choices(self) -> dict[str, ToolChoice]:
        """The valid choices by the names of the tools."""
        sent = valid_values(self) if self.is_bound else {}
        return {
            name.removeprefix(TOOL_FIELD): value
            for name, value in sent.items()
            if name.startswith(TOOL_FIELD) and value is not None
        }

    @property
    def labels(self) -> list[tuple[str, str]]:
        """The choices that each tool has, with their labels."""
        return [(choice.value, tool_choice_label(choice)) for choice in ToolChoice]

    @property
    def request_values(self) -> dict[str, Any]:
        """The fields of a launch request with the choices."""
        sent = valid_values(self) if self.is_bound else {}
        return {
            "tools": self.choices,
            "dry_run": bool(sent.get("dry_run")),
            "model_calls": sent.get("model_calls") or ModelChoice.CALL,
        }


# The form of limits of tokens, minutes and steps.


NAMES = {"tokens": "limit_tokens", "seconds": "limit_minutes", "steps": "limit_steps"}


class LimitField(forms.CharField):
    """A limit as rows store it, in seconds if it is typed in minutes; None if it is empty."""

    def __init__(self, measure: str) -> None:
        self.measure = measure
        widget = forms.TextInput(attrs={"id": NAMES[measure].replace("_", "-")})
        super().__init__(required=False, label=options.LIMIT_LABELS[measure], initial="", widget=widget)

    def clean(self, value: Any) -> float | None:
        text = super().clean(value)
        if not text:
            return None
        limit = parsed(lambda: parse_limit(self.measure, text))
        return max(1, round(limit * 60)) if self.measure == "seconds" else limit


class LimitsForm(forms.Form):
    """An empty field is no limit."""

    limit_tokens = LimitField("tokens")
    limit_minutes = LimitField("seconds")
    limit_steps = LimitField("steps")

    @property
    def limits(self) -> dict[str, float]:
        """The valid limits by measure, time in seconds; empty if nothing was sent."""
        values = valid_values(self)
        return {measure: values[name] for measure, name in NAMES.items() if values.get(name) is not None}

    @property
    def is_open(self) -> bool:
        """Whether this part of the page is initially open."""
        return any(field.value() for field in self)

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        return ", ".join(filter(None, map(_amount, self))) or _("none")


def _amount(bound: forms.BoundField) -> str:
    """A typed limit with its unit; unchanged if it is not valid, and empty if there is none."""
    text, limit = str(bound.value() or "").strip(), bound.field
    assert isinstance(limit, LimitField)
    with suppress(forms.ValidationError):
        return amount(limit.measure, limit.clean(text) or 0) if text else ""
    return text


class DailyLimitsForm(LimitsForm):
    """Stored limits. Those that somebody has changed since the form was shown are an error."""

    def __init__(self, data: Any = None, *, stored: Mapping[str, float], **options: Any) -> None:
        super().__init__(data, **options)
        self.stored = stored

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.stored):
            texts = limit_texts(self.stored)
            shown = ", ".join(f"{self[name].label}: {text}" for name, text in texts.items()) or "-"
            text = _("Somebody changed these limits to: %(limits)s. Save again to replace theirs.")
            raise forms.ValidationError(text % {"limits": shown})
        return self.cleaned_data


def limit_texts(limits: Mapping[str, float]) -> dict[str, str]:
    """The texts of stored limits by field, time in minutes."""
    return {NAMES[measure]: _text(measure, limits[measure]) for measure in NAMES if measure in limits}


def _text(measure: str, limit: float) -> str:
    number = limit / 60 if measure == "seconds" else limit
    return f"{number:.2f}".rstrip("0").rstrip(".") if number < 1e6 else str(int(number))


def score_field() -> OptionField:
    """The function of the project that scores results."""
    return OptionField(
        options.SCORE,
        "score-function",
        **{
            "class": "input input-mono",
            "placeholder": "judge:headline",
            "spellcheck": "false",
            "autocapitalize": "none",
            "aria-describedby": "score-hint",
        },
    )


def launch_options(timing: StartTimeForm, limits: LimitsForm) -> LaunchOptions:
    """The chosen start time and limits."""
    return LaunchOptions(timing.at, limits.limits, waits_for_host=bool(timing["waits_for_host"].value()))


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
    checkpointing: CheckpointsForm
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
        return (self.models, *of_settings, self.checkpointing, self.timing, self.limits, *of_tools)

    @property
    def values_forms(self) -> Sequence[ValuesForm]:
        """The forms of the values that the run's code reads."""
        return (self.settings.configurable.form, self.settings.context.form) if self.settings else ()

    @property
    def request_values(self) -> dict[str, Any]:
        """The fields of a launch request with the choices."""
        return {
            "models": self.models.chosen,
            "cache_warmup": self.models.strategy,
            "checkpointing": self.checkpointing.settings,
            "settings": self.settings.values if self.settings else NO_SETTINGS,
            "options": launch_options(self.timing, self.limits),
            **(self.tools.request_values if self.tools else {}),
        }
