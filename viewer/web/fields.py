"""Fields for stored values and outputs, which parse a text into a value of the stored type."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines.plan import MISSING, EditableOutput
from viewer.launching import edits
from viewer.launching.options import Option
from viewer.messages.translation import translate
from viewer.redaction import MARKER
from viewer.validation import whole_number

# What a form holds, whether or not all of its fields are valid.


def valid_values(form: forms.Form) -> dict[str, Any]:
    """The cleaned values of the valid fields; empty if nothing was sent."""
    if not form.is_bound:
        return {}
    form.is_valid()
    return form.cleaned_data


def errors_text(form: forms.BaseForm) -> str:
    """All errors of a form, for a message on another page."""
    return " ".join(str(one) for errors in form.errors.values() for one in errors)


# Fields for stored values and outputs, which parse a text into a value of the stored type.


Parsed = TypeVar("Parsed")
# The kind of a value by the type that a source gives it.
KINDS = {
    str: edits.ValueKind.TEXT,
    int: edits.ValueKind.WHOLE_NUMBER,
    float: edits.ValueKind.NUMBER,
    bool: edits.ValueKind.YES_NO,
    list: edits.ValueKind.LIST,
    dict: edits.ValueKind.JSON,
}


def parsed(parse: Callable[[], Parsed]) -> Parsed:
    """What ``parse`` returns. Raises ValidationError where it raises InvalidInput or InvalidValue."""
    try:
        return parse()
    except edits.INVALID as invalid:
        raise forms.ValidationError(translate(invalid)) from invalid


class OptionField(forms.Field):
    """The value of a run's option; None if it is empty."""

    def __init__(self, option: Option[Any], html_id: str, **attrs: str) -> None:
        self.option = option
        widget = forms.TextInput(attrs={"id": html_id, **attrs})
        super().__init__(required=False, initial="", label=option.label, widget=widget)

    def clean(self, value: Any) -> Any:
        text = str(value or "").strip()
        return parsed(lambda: self.option.parse(text)) if text else None


class ChoiceField(forms.ChoiceField):
    """An option with the choices that its page offers. ``parse`` refuses others; empty if none is chosen."""

    def __init__(self, option: Option[Any], html_id: str, **attrs: str) -> None:
        self.parse: Callable[[str], str] = option.parse
        widget = forms.Select(attrs={"id": html_id, **attrs})
        super().__init__(required=False, initial="", label=option.label, widget=widget)

    def valid_value(self, value: str) -> bool:
        return True

    def clean(self, value: Any) -> str:
        text = str(super().clean(value))
        return parsed(lambda: self.parse(text)) if text else ""


class UnitsField(forms.Field):
    """The names of units, from boxes or from a text with commas."""

    def __init__(self, option: Option[tuple[str, ...]]) -> None:
        self.option = option
        widget = forms.SelectMultiple(attrs={"id": option.name})
        super().__init__(required=False, label=option.label, widget=widget)

    def clean(self, value: Any) -> tuple[str, ...]:
        names = [name.strip() for text in value or () for name in str(text).split(",")]
        return parsed(lambda: self.option.parse(filter(None, names)))


class WholeNumberField(forms.CharField):
    """A whole number of this range; None if it is empty."""

    def __init__(self, least: int, most: int, label: Any) -> None:
        self.least, self.most = least, most
        widget = forms.NumberInput(attrs={"min": least, "max": most})
        super().__init__(required=False, label=label, widget=widget)

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        return parsed(lambda: whole_number(text, self.least, self.most)) if text else None


class Typed(NamedTuple):
    """The text of a value's field, None if it was not sent, and that of its JSON field."""

    text: str | None
    json: str = ""


class ValueInput(forms.Textarea):
    """A field and, for JSON of any type, a second one named ``json_name``; empty if there is none."""

    def __init__(self, json_name: str, html_id: str) -> None:
        super().__init__(attrs={"id": html_id})
        self.json_name = json_name

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Typed:
        return Typed(data.get(name), data.get(self.json_name, "") if self.json_name else "")


class ValueField(forms.Field):
    """A kickoff input or an entry of the state. It is cleaned to ``stored`` itself if nothing changed.

    ``wanted`` is the kind of a value that is not stored yet.
    """

    def __init__(
        self, group: str, number: int, name: str, stored: Any, wanted: edits.ValueKind | None = None
    ) -> None:
        is_open = stored is MISSING or stored == MARKER
        self.name, self.stored = name, stored
        self.kind = (wanted or edits.ValueKind.TEXT) if is_open else edits.kind_of(stored)
        self.stored_text = "" if is_open else edits.text_of(stored, self.kind)
        self.json_name = "" if self.kind is edits.ValueKind.JSON else f"{group}-json:{name}"
        widget = ValueInput(self.json_name, f"{group}-{number}")
        super().__init__(required=False, label=name, initial=Typed(self.stored_text), widget=widget)

    @property
    def is_missing(self) -> bool:
        return self.stored is MISSING

    @property
    def is_secret(self) -> bool:
        return bool(self.stored == MARKER)

    @property
    def has_redacted_part(self) -> bool:
        return not self.is_missing and not self.is_secret and edits.has_redacted_part(self.stored)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial if data.text is None else data

    def clean(self, value: Typed) -> Any:
        text, json = value
        if text is None:
            return self.stored
        if not json.strip() and edits.normal_line_ends(text) == edits.normal_line_ends(self.stored_text):
            return self.stored
        typed, kind = (json, edits.ValueKind.JSON) if json.strip() else (text, self.kind)
        new = parsed(lambda: edits.parse_value(typed, kind))
        return self.stored if not self.is_missing and edits.same_value(new, self.stored) else new


class MoreValuesField(forms.CharField):
    """A JSON object with values that have no field. ``taken`` are the names of those that have one."""

    def __init__(self, group: str, taken: Collection[str]) -> None:
        self.taken = taken
        widget = forms.Textarea(attrs={"id": f"{group}-more"})
        label = gettext_lazy("More values")
        super().__init__(required=False, strip=False, initial="", label=label, widget=widget)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        values = parsed(lambda: edits.parse_object(text)) if text.strip() else {}
        doubled = [name for name in values if name in self.taken]
        if doubled:
            raise forms.ValidationError(_("%(name)s has its own field.") % {"name": doubled[0]})
        return values


class OutputField(forms.Field):
    """The output of a finished unit. It is cleaned to the edit, as a request has it, or None."""

    def __init__(self, output: EditableOutput) -> None:
        self.output, self.stored = output, edits.output_text(output)
        widget = forms.Textarea(attrs={"id": f"output-{output.position}"})
        super().__init__(required=False, label=output.title, initial=self.stored, widget=widget)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial if data is None else data

    def clean(self, value: Any) -> Any:
        return None if value is None else parsed(lambda: edits.parse_output(self.output, value))
