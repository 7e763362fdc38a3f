"""The part of a form for limits of tokens, minutes and steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.forms.fields import Sent
from viewer.launching.option_values import parse_limit

LABELS: dict[str, str | Promise] = {
    "tokens": gettext_lazy("Tokens"),
    "seconds": gettext_lazy("Minutes"),
    "steps": gettext_lazy("Steps"),
}
NAMES = {"tokens": "limit_tokens", "seconds": "limit_minutes", "steps": "limit_steps"}


@dataclass(slots=True)
class LimitField:
    """One limit as typed. An empty text means no limit."""

    measure: str
    text: str = ""
    value: float | None = None
    error: str = ""

    @property
    def html_name(self) -> str:
        return NAMES[self.measure]

    @property
    def html_id(self) -> str:
        return NAMES[self.measure].replace("_", "-")

    @property
    def label(self) -> str:
        return str(LABELS[self.measure])


@dataclass(slots=True)
class LimitsPart:
    """The part of a form, its fields in the order of the page."""

    fields: list[LimitField] = field(default_factory=list)

    @property
    def values(self) -> dict[str, float]:
        """The limits as rows store them, time in seconds."""
        return {one.measure: one.value for one in self.fields if one.value is not None}

    @property
    def is_open(self) -> bool:
        return any(one.text for one in self.fields)

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        """The id, label and message of each invalid field."""
        return [(one.html_id, one.label, one.error) for one in self.fields if one.error]

    @property
    def summary(self) -> str:
        """A short label of what is chosen."""
        shown = [f"{one.text} {one.label.lower()}" for one in self.fields if one.text]
        return ", ".join(shown) or _("none")


def read_limits(sent: Sent, stored: Mapping[str, float] | None = None) -> LimitsPart:
    """The part as it was sent; with the ``stored`` limits if ``sent`` is None."""
    if sent is None:
        return LimitsPart([_shown(measure, (stored or {}).get(measure)) for measure in NAMES])
    return LimitsPart([_read(measure, sent.get(name, "").strip()) for measure, name in NAMES.items()])


def _shown(measure: str, value: float | None) -> LimitField:
    if value is None:
        return LimitField(measure)
    number = value / 60 if measure == "seconds" else value
    return LimitField(
        measure, f"{number:.2f}".rstrip("0").rstrip(".") if number < 1e6 else str(int(number)), value
    )


def _read(measure: str, text: str) -> LimitField:
    made = LimitField(measure, text)
    try:
        if text:
            made.value = parse_limit(measure, text)
            if measure == "seconds":
                made.value = max(1, round(made.value * 60))
    except ValueError as error:
        made.error = str(error)
    return made
