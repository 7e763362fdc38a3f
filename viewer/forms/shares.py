"""What a person chooses for a share link."""

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from viewer.sharing.links import EXPIRY_DAYS


def _choices() -> list[tuple[str, str]]:
    return [
        (str(days), ngettext("%(count)s day", "%(count)s days", days) % {"count": days})
        for days in EXPIRY_DAYS
    ]


class ShareForm(forms.Form):
    """How long a link works, and whether it unfurls in a chat."""

    days = forms.ChoiceField(label=_("Expires after"), choices=_choices, initial=str(EXPIRY_DAYS[0]))
    unfurls = forms.BooleanField(label=_("Show a preview where the link is pasted"), required=False)

    @property
    def days_chosen(self) -> int:
        """How many days the link works."""
        return int(self.cleaned_data["days"])
