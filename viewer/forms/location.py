"""The path of a location, as a person types it."""

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _


class LocationForm(forms.Form):
    """Whether the path may be opened, and what stands there, is for the import to find."""

    path = forms.CharField(
        label=_("Folder or SQLite file"),
        max_length=1000,
        widget=forms.TextInput(
            attrs={
                "class": "input input-mono",
                "placeholder": "/path/to/newsroom/.checkpoints",
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
    )


def roots_in_words() -> str:
    """The folders below which locations may be opened."""
    return ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
