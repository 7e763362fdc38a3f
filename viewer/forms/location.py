"""The path of a location, as a person types it."""

from pathlib import Path

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _


class LocationForm(forms.Form):
    """``cleaned_data["path"]`` is a resolved Path below one of the allowed roots."""

    path = forms.CharField(
        label=_("Folder or SQLite file"),
        max_length=1000,
        widget=forms.TextInput(
            attrs={
                "class": "input input-mono",
                "placeholder": "/home/me/newsroom/.checkpoints",
                "autocomplete": "off",
            }
        ),
    )

    def clean_path(self) -> Path:
        text = self.cleaned_data["path"].strip()
        path = Path(text).expanduser() if "\0" not in text else Path()
        if not path.is_absolute():
            raise ValidationError(_("Give the whole path, from the first “/” on."))
        try:
            path = path.resolve()
            # What is outside the roots is not looked at: not even whether it is there.
            if not any(path.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS):
                raise ValidationError(
                    _("This server opens only what is below %(roots)s. CHECKPOINT_ROOTS can allow more."),
                    params={"roots": roots_in_words()},
                )
            if not path.exists():
                raise ValidationError(_("There is nothing at that path."))
        except (OSError, RuntimeError):
            raise ValidationError(_("That path cannot be followed.")) from None
        return path


def roots_in_words() -> str:
    """The folders below which locations may be opened."""
    return ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
