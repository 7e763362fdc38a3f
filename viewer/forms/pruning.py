"""The form of the rules by which a location is pruned."""

from django import forms
from django.utils.translation import gettext_lazy as _

from viewer.forms.fields import WholeNumberField
from viewer.pruning import MAX_LATEST
from viewer.validation import MAX_DAYS


class RulesForm(forms.Form):
    """Age, number and branch, of which empty fields are no rules; and whether copies are deleted."""

    days = WholeNumberField(0, MAX_DAYS, label=_("Older than, in days"))
    latest = WholeNumberField(1, MAX_LATEST, label=_("Keep the newest of each branch"))
    branch = forms.CharField(label=_("Only this branch"), required=False, max_length=300)
    copies = forms.BooleanField(label=_("Delete the stored copies too"), required=False)
