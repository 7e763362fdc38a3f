"""What a form holds, whether or not all of its fields are valid."""

from typing import Any

from django import forms


def valid_values(form: forms.Form) -> dict[str, Any]:
    """The cleaned values of the valid fields; empty if nothing was sent."""
    if not form.is_bound:
        return {}
    form.is_valid()
    return form.cleaned_data
