"""The option parts of every launch page: models, checkpoints, start time and limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.forms import BoundField, Form
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.engines.planning.run_settings import NO_SETTINGS
from viewer.formats.moments import short_moment
from viewer.forms.launch.schedule import LATER, StartTimeForm
from viewer.forms.limits import LimitsForm
from viewer.forms.models import CACHE_WARMUP, ModelsForm
from viewer.launching.requests.option_values import ALL_AGENTS, STRATEGIES
from viewer.launching.requests.options import LaunchOptions
from viewer.presentation.launch.checkpoints_part import CheckpointsPart
from viewer.presentation.launch.run_settings_part import RunSettingsPart


@dataclass(frozen=True, slots=True)
class LimitsPart:
    """Limits of tokens, minutes and steps."""

    form: LimitsForm

    @property
    def fields(self) -> list[BoundField]:
        return list(self.form)

    @property
    def values(self) -> dict[str, float]:
        return self.form.limits

    @property
    def is_open(self) -> bool:
        return any(field.value() for field in self.form)

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        typed = [(str(field.value() or "").strip(), str(field.label).lower()) for field in self.form]
        return ", ".join(f"{text} {label}" for text, label in typed if text) or _("none")


@dataclass(frozen=True, slots=True)
class StartTimePart:
    """When the run starts, in the server's time zone."""

    form: StartTimeForm

    @property
    def field(self) -> BoundField:
        return self.form["start_at"]

    @property
    def text(self) -> str:
        return str(self.field.value() or "")

    @property
    def at(self) -> datetime | None:
        return self.form.at

    @property
    def is_later(self) -> bool:
        return bool(self.text or self.form["start"].value() == LATER)

    @property
    def zone(self) -> str:
        """The name of the server's time zone."""
        return timezone.get_current_timezone_name()

    @property
    def server_time(self) -> datetime:
        return timezone.localtime()

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        return short_moment(self.at) if self.at else _("now")


@dataclass(frozen=True, slots=True)
class ModelsPart:
    """The models of agents and the prompt cache warm-up."""

    form: ModelsForm

    @property
    def fields(self) -> list[BoundField]:
        return [field for field in self.form if field.name != CACHE_WARMUP]

    @property
    def cache_warmup(self) -> BoundField:
        return self.form[CACHE_WARMUP]

    @property
    def may_warm_up(self) -> bool:
        return self.form.may_warm_up

    @property
    def strategies(self) -> list[tuple[str, str]]:
        """The choices, with their labels."""
        return [(name, str(text)) for name, text in STRATEGIES.items()]

    @property
    def summary(self) -> str:
        """A short label of the choices."""
        chosen = self.form.chosen.items()
        shown = [f"{_('all') if role == ALL_AGENTS else role}: {model}" for role, model in chosen]
        if self.form.strategy:
            shown.append(_("prompt cache warm-up"))
        return ", ".join(shown) or _("as they are")

    @property
    def is_open(self) -> bool:
        """Whether this part of the page is initially open."""
        return bool(self.form.chosen or self.form.strategy or self.form.errors)


@dataclass(frozen=True, slots=True)
class OptionParts:
    """All option parts, in the order of the page."""

    models: ModelsPart
    checkpointing: CheckpointsPart
    timing: StartTimePart
    limits: LimitsPart
    # None for kinds without run settings.
    settings: RunSettingsPart | None = None

    @property
    def forms(self) -> Sequence[Form]:
        of_settings = self.settings.forms if self.settings else ()
        return (self.models.form, *of_settings, self.checkpointing.form, self.timing.form, self.limits.form)

    @property
    def request_values(self) -> dict[str, Any]:
        """The fields of a launch request with the choices."""
        return {
            "models": self.models.form.chosen,
            "cache_warmup": self.models.form.strategy,
            "checkpointing": self.checkpointing.form.settings,
            "settings": self.settings.values if self.settings else NO_SETTINGS,
            "options": LaunchOptions(self.timing.at, self.limits.values),
        }


def option_parts(
    models: ModelsForm,
    checkpointing: CheckpointsPart,
    data: Any,
    settings: RunSettingsPart | None = None,
) -> OptionParts:
    """The parts, in their initial state if ``data`` is None."""
    timing, limits = StartTimePart(StartTimeForm(data)), LimitsPart(LimitsForm(data))
    return OptionParts(ModelsPart(models), checkpointing, timing, limits, settings)
