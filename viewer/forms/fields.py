"""Fields for stored values and outputs, with what was typed and the value that it means."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext_lazy

from viewer.engines.editable import MISSING
from viewer.launching.values import (
    InvalidValue,
    Kind,
    has_redacted_part,
    kind_of,
    normal_line_ends,
    parse_output,
    parse_value,
    same_value,
    text_of,
)
from viewer.presentation.text_diff import Piece, difference
from viewer.redaction.marker import MARKER
from viewer.redaction.names.secrecy import secrecy_of

# The names and texts that a form sent; None if it is shown for the first time.
Sent = Mapping[str, str] | None


def sent_texts(data: QueryDict | None) -> Sent:
    """The last text of each name, None if nothing was sent."""
    return None if data is None else {name: str(texts[-1]) for name, texts in data.lists() if texts}


KIND_WORDS = {
    Kind.TEXT: gettext_lazy("text"),
    Kind.WHOLE_NUMBER: gettext_lazy("whole number"),
    Kind.NUMBER: gettext_lazy("number"),
    Kind.YES_NO: gettext_lazy("yes or no"),
    Kind.LIST: gettext_lazy("list, one item a line"),
    Kind.JSON: gettext_lazy("JSON"),
}
# A text up to this length starts with one line.
SHORT = 80


@dataclass(slots=True)
class ValueField:
    """A kickoff input or an entry of the state. ``value`` is set only if ``changed``."""

    name: str
    html_name: str
    html_id: str
    kind: Kind
    stored: Any
    text: str
    json_name: str = ""
    json_text: str = ""
    value: Any = None
    changed: bool = False
    error: str = ""

    @property
    def is_secret(self) -> bool:
        return bool(self.stored == MARKER)

    @property
    def is_missing(self) -> bool:
        return self.stored is MISSING

    @property
    def has_redacted_part(self) -> bool:
        return not self.is_missing and not self.is_secret and has_redacted_part(self.stored)

    @property
    def is_private(self) -> bool:
        """Whether what is typed into it may be a secret."""
        return self.is_secret or self.has_redacted_part or bool(secrecy_of(self.name))

    @property
    def kind_words(self) -> str:
        return str(KIND_WORDS[self.kind])

    @property
    def stored_text(self) -> str:
        """The stored value as text, for reading next to its field."""
        if self.is_missing or self.is_secret:
            return ""
        return ", ".join(self.stored) if self.kind is Kind.LIST else text_of(self.stored, self.kind)

    @property
    def rows(self) -> int:
        return min(12, max(1, self.text.count("\n") + 1, len(self.text) // SHORT))


def read_value(
    group: str, number: int, name: str, stored: Any, sent: Sent, wanted: Kind | None = None
) -> ValueField:
    """The field of one value, as sent. A value that was not sent, or equals the stored one, is not a change.

    ``wanted`` is the kind of one that has no value yet.
    """
    is_open = stored is MISSING or stored == MARKER
    kind = (wanted or Kind.TEXT) if is_open else kind_of(stored)
    shown = "" if is_open else text_of(stored, kind)
    made = ValueField(name, f"{group}:{name}", f"{group}-{number}", kind, stored, shown)
    if kind is not Kind.JSON:
        made.json_name = f"{group}-json:{name}"
    if sent is None or made.html_name not in sent:
        return made
    made.text, made.json_text = sent[made.html_name], sent.get(made.json_name, "")
    try:
        if made.json_text.strip():
            made.value = parse_value(made.json_text, Kind.JSON)
        elif normal_line_ends(made.text) == normal_line_ends(shown):
            return made
        else:
            made.value = parse_value(made.text, kind)
    except InvalidValue as refused:
        made.error = str(refused)
    else:
        made.changed = stored is MISSING or not same_value(made.value, stored)
    return made


@dataclass(slots=True)
class OutputField:
    """The output of a finished unit. ``value`` is the edit, as a request has it."""

    unit: str
    position: int
    title: str
    agent: str
    html_id: str
    is_json: bool
    stored: str
    text: str
    too_long: bool = False
    value: Any = None
    changed: bool = False
    error: str = ""
    before: list[Piece] = field(default_factory=list)
    after: list[Piece] = field(default_factory=list)

    @property
    def html_name(self) -> str:
        return f"output:{self.unit}"

    @property
    def word_count(self) -> int:
        return len(self.stored.split())

    @property
    def is_open(self) -> bool:
        """Whether its editor starts open."""
        return self.changed or bool(self.error)

    @property
    def has_redacted_part(self) -> bool:
        return MARKER in self.stored


def mark_changes(output: OutputField) -> None:
    """Compute the differences from the stored text, for showing both side by side."""
    text = output.text.replace("\r\n", "\n") if output.changed else output.stored
    output.before, output.after = difference(output.stored.replace("\r\n", "\n"), text)


def read_output(made: OutputField, stored_json: Any, sent: Sent) -> OutputField:
    """The field as sent. A text that equals the stored output is not a change."""
    if sent is None or made.html_name not in sent or made.too_long:
        return made
    made.text = sent[made.html_name]
    if normal_line_ends(made.text) == normal_line_ends(made.stored):
        return made
    try:
        made.value = parse_output(made.text, stored_json if made.is_json else None)
    except InvalidValue as refused:
        made.error = str(refused)
    else:
        made.changed = not made.is_json or not same_value(made.value["json"], stored_json)
    return made
