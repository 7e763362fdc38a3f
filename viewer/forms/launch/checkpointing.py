"""The form for the events that write checkpoints, and for how many checkpoints are kept."""

from collections.abc import Collection, Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.checkpoint_events import EventPreset
from viewer.forms.fields import parsed
from viewer.forms.launch.valid_values import valid_values
from viewer.jobs.request import CheckpointSettings
from viewer.launching.requests.option_values import parse_kept_checkpoints

EVENTS = "checkpoint_events"
PRESET = "checkpoint_preset"
MAX_CHECKPOINTS = "max_checkpoints"
EVERY = "*"


class EventsField(forms.MultipleChoiceField):
    """The names of events, each once. ``engine`` is the engine's title."""

    engine = ""

    def to_python(self, value: Any) -> list[str]:
        return list(dict.fromkeys(super().to_python(value)))

    def validate(self, value: Collection[str]) -> None:
        unknown = [name for name in value if not self.valid_value(name)]
        if unknown:
            message = _("The project's %(engine)s does not know these events: %(names)s.")
            raise forms.ValidationError(message % {"engine": self.engine, "names": ", ".join(unknown)})


class CheckpointsForm(forms.Form):
    """``known`` are the events of the project's engine, ``engine`` is the engine's title."""

    checkpoint_preset = forms.ChoiceField(required=False, label=gettext_lazy("Checkpoints at"))
    checkpoint_events = EventsField(
        required=False,
        label=gettext_lazy("Checkpoints at"),
        widget=forms.SelectMultiple(attrs={"id": "checkpoint-events"}),
    )
    max_checkpoints = forms.CharField(
        required=False,
        initial="",
        label=gettext_lazy("Keep latest"),
        widget=forms.TextInput(attrs={"id": "max-checkpoints"}),
    )

    def __init__(
        self, data: Any, known: Iterable[str], engine: str, presets: Iterable[EventPreset] = ()
    ) -> None:
        super().__init__(data)
        preset = self.fields[PRESET]
        assert isinstance(preset, forms.ChoiceField)
        preset.choices = [("", ""), *((one.name, one.label) for one in presets)]
        events = self.fields[EVENTS]
        assert isinstance(events, EventsField)
        events.choices = [(name, name) for name in (EVERY, *known)]
        events.engine = engine

    def clean_max_checkpoints(self) -> int | None:
        text = self.cleaned_data[MAX_CHECKPOINTS]
        if not text:
            return None
        return parsed(lambda: parse_kept_checkpoints(text))

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
