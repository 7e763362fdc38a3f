"""The form of the start time: now, or a time in the server's time zone."""

from datetime import datetime

from django import forms
from django.utils.translation import gettext_lazy as _

from viewer.forms.fields import parsed
from viewer.forms.launch.valid_values import valid_values
from viewer.launching.requests.option_values import parse_start_time

NOW, LATER = "now", "later"


class StartTimeForm(forms.Form):
    """A typed time applies whatever is chosen: starting too late is better than starting now."""

    start = forms.ChoiceField(
        required=False,
        label=_("Start"),
        choices=[(NOW, _("Now")), (LATER, _("At this time"))],
        widget=forms.Select(attrs={"id": "when"}),
    )
    start_at = forms.CharField(
        required=False, initial="", label=_("Start"), widget=forms.TextInput(attrs={"id": "start-at"})
    )

    def clean_start_at(self) -> datetime | None:
        text = self.cleaned_data["start_at"]
        if not text and self.cleaned_data.get("start") != LATER:
            return None
        return parsed(lambda: parse_start_time(text))

    @property
    def at(self) -> datetime | None:
        """The start time, None for now."""
        return valid_values(self).get("start_at")
