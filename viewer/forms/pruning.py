"""The form of the rules by which a location is pruned."""

from django import forms
from django.utils.translation import gettext_lazy as _

MAX_DAYS, MAX_LATEST = 36_500, 1_000_000


class RulesForm(forms.Form):
    """Age, number and branch, of which empty fields are no rules; and whether copies are deleted."""

    days = forms.IntegerField(label=_("Older than, in days"), required=False, min_value=0, max_value=MAX_DAYS)
    latest = forms.IntegerField(
        label=_("Keep the newest of each branch"), required=False, min_value=1, max_value=MAX_LATEST
    )
    branch = forms.CharField(label=_("Only this branch"), required=False, max_length=300)
    copies = forms.BooleanField(label=_("Delete the stored copies too"), required=False)
