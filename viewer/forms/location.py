"""The form of a location: its path."""

from django import forms
from django.conf import settings
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from viewer.stores.postgresql.address import is_uri


class LocationForm(forms.Form):
    """The import checks whether the path may be opened and what is there."""

    path = forms.CharField(
        label=_("Folder or SQLite file"),
        max_length=1000,
        widget=forms.TextInput(
            attrs={
                "class": "input input-mono",
                "placeholder": "/path/to/newsroom/.checkpoints",
                "autocomplete": "off",
                "spellcheck": "false",
                "list": "paths",
                "hx-get": reverse_lazy("location-paths"),
                "hx-trigger": "focus once, input changed delay:100ms",
                "hx-target": "#paths",
                "hx-swap": "innerHTML",
                "hx-sync": "this:replace",
            }
        ),
    )

    def clean_path(self) -> str:
        """The path. A connection URI may hold a password, and is not shown again."""
        path = str(self.cleaned_data["path"])
        if is_uri(path):
            self.data = {**self.data, "path": ""}
        is_path = ":" not in path.partition("/")[0] and path not in settings.POSTGRESQL_LOCATIONS
        if is_path and not path.startswith(("/", "~")):
            # It would be relative to the folder in which the server was started.
            raise forms.ValidationError(_("Enter an absolute path."))
        return path


def allowed_folders() -> str:
    """The allowed folders, as one text."""
    return ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
