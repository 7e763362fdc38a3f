"""The form of how a project's runs are isolated."""

from typing import Any

import msgspec
from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.messages.translation import translate
from viewer.presentation.isolation import LAUNCHER_LABELS, LIMIT_LABELS, NETWORK_LABELS
from viewer.records.annotations import has_changed
from viewer.records.isolation import LIMITS, Isolation, IsolationRefused, allowed_hosts, checked
from viewer.validation import whole_number
from viewer.web.fields import parsed


class LimitField(forms.CharField):
    """A whole number from 0; 0 if it is empty."""

    def __init__(self, name: str) -> None:
        self.most = LIMITS[name]
        super().__init__(required=False, label=LIMIT_LABELS[name], max_length=20)

    def clean(self, value: Any) -> int:
        text = super().clean(value)
        return parsed(lambda: whole_number(text, 0, self.most)) if text else 0


class FoldersField(forms.CharField):
    """Paths, one a line."""

    def __init__(self, label: Any) -> None:
        hint = _("Absolute paths, one per line, such as a folder of models. Only in a sandbox.")
        super().__init__(
            required=False, label=label, help_text=hint, max_length=20_000, widget=forms.Textarea
        )

    def clean(self, value: Any) -> tuple[str, ...]:
        return tuple(line.strip() for line in super().clean(value).splitlines() if line.strip())


class HostsField(forms.CharField):
    """Hosts, one a line, each with its port if that is not the one of https."""

    def __init__(self) -> None:
        hint = _("One per line, such as api.openai.com or db.example.org:5432. Only with bubblewrap.")
        super().__init__(
            required=False,
            label=_("Allowed hosts"),
            help_text=hint,
            max_length=40_000,
            widget=forms.Textarea,
        )

    def clean(self, value: Any) -> tuple[str, ...]:
        try:
            return allowed_hosts(super().clean(value).splitlines())
        except IsolationRefused as refused:
            raise forms.ValidationError(translate(refused)) from None


class IsolationForm(forms.Form):
    """``isolation`` has the values of a valid form. What somebody has changed meanwhile is an error."""

    launcher = forms.ChoiceField(choices=list(LAUNCHER_LABELS.items()), label=_("Launcher"))
    network = forms.ChoiceField(choices=list(NETWORK_LABELS.items()), label=_("Network"))
    allow = HostsField()
    memory_mb = LimitField("memory_mb")
    cpu_seconds = LimitField("cpu_seconds")
    processes = LimitField("processes")
    open_files = LimitField("open_files")
    wall_seconds = LimitField("wall_seconds")
    read = FoldersField(_("May also read"))
    write = FoldersField(_("May also write"))

    def __init__(self, data: Any = None, *, stored: dict[str, Any]) -> None:
        self.stored = stored
        texts = {
            **stored,
            **{name: "\n".join(stored.get(name) or []) for name in ("allow", "read", "write")},
        }
        super().__init__(data, initial=texts)

    @property
    def limits(self) -> list[forms.BoundField]:
        """The fields of limits."""
        return [self[name] for name in LIMITS]

    @property
    def folders(self) -> list[forms.BoundField]:
        return [self["read"], self["write"]]

    @property
    def isolation(self) -> Isolation:
        """What a valid form asks for."""
        return msgspec.convert(self.cleaned_data, Isolation)

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.stored):
            raise forms.ValidationError(gettext("Somebody changed this meanwhile. Save again to replace it."))
        if not self.errors:
            try:
                checked(self.isolation)
            except IsolationRefused as refused:
                raise forms.ValidationError(translate(refused)) from None
        return self.cleaned_data
