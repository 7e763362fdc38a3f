"""The form of what a person accepts and answers before a start."""

from typing import Any

from django import forms

from viewer.forms.launch.valid_values import valid_values
from viewer.launching.requests.requests import Accepted

# The names of the fields, which no Python name can be.
ACCEPT_REDACTED, ACCEPT_EFFECTS = "accept-hidden", "accept-effects"
ANSWER = "match:"


class PreflightForm(forms.Form):
    """``check`` and ``accept-effects`` are the buttons that start the check and accept what it listed.

    ``accepted`` and ``accept-hidden`` are the digests of the losses and the redacted parts.
    """

    check = forms.CharField(required=False)
    accepted = forms.CharField(required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        answers = [name for name in data or () if name.startswith(ANSWER)]
        for name in (ACCEPT_REDACTED, ACCEPT_EFFECTS, *answers):
            self.fields[name] = forms.CharField(required=False, strip=False)

    @property
    def accepted_by_person(self) -> Accepted:
        """The digests of the redacted parts and losses that the person accepted."""
        values = valid_values(self)
        return Accepted(redacted_parts=values.get(ACCEPT_REDACTED, ""), losses=values.get("accepted", ""))

    @property
    def accepted_effects(self) -> str:
        """The digest of the effects that the person accepted with the button."""
        return str(valid_values(self).get(ACCEPT_EFFECTS, ""))

    @property
    def starts_check(self) -> bool:
        """Whether the button was pressed that starts the check."""
        return bool(valid_values(self).get("check"))

    @property
    def answers(self) -> dict[str, str]:
        """The chosen one of the project, by the id of the saved one."""
        values = valid_values(self)
        return {name.removeprefix(ANSWER): text for name, text in values.items() if name.startswith(ANSWER)}
