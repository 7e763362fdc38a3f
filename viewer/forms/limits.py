"""The form of limits of tokens, minutes and steps."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.forms.fields import parsed
from viewer.forms.launch.valid_values import valid_values
from viewer.launching.requests.option_values import parse_limit
from viewer.seen import has_changed

NAMES = {"tokens": "limit_tokens", "seconds": "limit_minutes", "steps": "limit_steps"}


class LimitField(forms.CharField):
    """A limit as rows store it, in seconds if it is typed in minutes; None if it is empty."""

    def __init__(self, measure: str, label: Any) -> None:
        self.measure = measure
        widget = forms.TextInput(attrs={"id": NAMES[measure].replace("_", "-")})
        super().__init__(required=False, label=label, initial="", widget=widget)

    def clean(self, value: Any) -> float | None:
        text = super().clean(value)
        if not text:
            return None
        limit = parsed(lambda: parse_limit(self.measure, text))
        return max(1, round(limit * 60)) if self.measure == "seconds" else limit


class LimitsForm(forms.Form):
    """An empty field is no limit."""

    limit_tokens = LimitField("tokens", _("Tokens"))
    limit_minutes = LimitField("seconds", _("Minutes"))
    limit_steps = LimitField("steps", _("Steps"))

    @property
    def limits(self) -> dict[str, float]:
        """The valid limits by measure, time in seconds; empty if nothing was sent."""
        values = valid_values(self)
        return {measure: values[name] for measure, name in NAMES.items() if values.get(name) is not None}


class DailyLimitsForm(LimitsForm):
    """Stored limits. Those that somebody has changed since the form was shown are an error."""

    def __init__(self, data: Any = None, *, stored: Mapping[str, float], **options: Any) -> None:
        super().__init__(data, **options)
        self.stored = stored

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.stored):
            texts = limit_texts(self.stored)
            shown = ", ".join(f"{self[name].label}: {text}" for name, text in texts.items()) or "-"
            text = gettext("Somebody changed these limits to: %(limits)s. Save again to replace theirs.")
            raise forms.ValidationError(text % {"limits": shown})
        return self.cleaned_data


def limit_texts(limits: Mapping[str, float]) -> dict[str, str]:
    """The texts of stored limits by field, time in minutes."""
    return {NAMES[measure]: _text(measure, limits[measure]) for measure in NAMES if measure in limits}


def _text(measure: str, limit: float) -> str:
    number = limit / 60 if measure == "seconds" else limit
    return f"{number:.2f}".rstrip("0").rstrip(".") if number < 1e6 else str(int(number))
