"""One thing that variations may differ in, and what was typed for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext as _

from viewer.forms.fields import OutputField, ValueField, read_output
from viewer.forms.models import ModelField
from viewer.launching.option_values import parse_model
from viewer.launching.values import InvalidValue, Kind, parse_values, same_value

# So many texts can be typed for an output before another one is asked for.
TEXTS_AT_FIRST = 2
# Names, and each text that was sent under them. None where the form is shown for the first time.
SentTexts = Mapping[str, Sequence[str]] | None


@dataclass(slots=True)
class Varied:
    """One thing that may differ. ``values`` are as an edit holds them; it varies where there are any.

    ``group`` is input, state, output or model, and ``key`` the name, task or role within it.
    """

    group: str
    key: str
    label: str
    html_id: str
    stored: str
    kind_words: str = ""
    hint: str = ""
    texts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    keeps_stored: bool = False
    error: str = ""

    @property
    def html_name(self) -> str:
        return f"vary-{self.group}:{self.key}"

    @property
    def stored_name(self) -> str:
        """The name of the box that counts the stored text as one of them."""
        return f"vary-stored:{self.key}"

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""

    @property
    def rows(self) -> int:
        return min(8, max(2, self.text.count("\n") + 1))

    @property
    def is_open(self) -> bool:
        return any(text.strip() for text in self.texts) or bool(self.error)


def varied_value(one: ValueField, group: str, sent: SentTexts) -> Varied:
    """An input, or an entry of a flow's state, and the values that were typed for it."""
    hint = _("one value a line")
    if one.kind in (Kind.LIST, Kind.JSON):
        hint = _("a JSON list of values, such as %(example)s") % {"example": '[["a"], ["b", "c"]]'}
    # How one value is written in the form of a fork is no help here.
    kind = _("list") if one.kind is Kind.LIST else one.kind_words
    made = Varied(group, one.name, one.name, f"vary-{one.html_id}", one.stored_text, kind, hint)
    made.texts = list((sent or {}).get(made.html_name, [])[:1])
    try:
        for value in parse_values(made.text, one.kind):
            if not any(same_value(value, other) for other in made.values):
                made.values.append(value)
    except InvalidValue as refused:
        made.error = str(refused)
    return made


def varied_output(one: OutputField, stored: Any, sent: SentTexts) -> Varied:
    """A finished task's output, and the texts that were typed for it."""
    label = _("output of task %(position)d") % {"position": one.position}
    made = Varied("output", one.unit, label, f"vary-{one.html_id}", one.stored, hint=one.title)
    made.texts = [text for text in (sent or {}).get(made.html_name, []) if text.strip()]
    made.keeps_stored = bool(sent and sent.get(made.stored_name))
    for text in made.texts:
        read = read_output(replace(one), stored, {one.html_name: text})
        made.error = made.error or read.error
        # A text that means the stored one is that one.
        value = read.value if read.changed else None
        if value not in made.values:
            made.values.append(value)
    if made.keeps_stored and made.values and None not in made.values:
        made.values.insert(0, None)
    empty = 1 if sent and made.html_name in sent.get("another", []) else 0
    made.texts += [""] * max(empty, TEXTS_AT_FIRST - len(made.texts))
    return made


def varied_model(one: ModelField, sent: SentTexts) -> Varied:
    """An agent's model, or that of all, and the names that were typed for it."""
    label = _("model") if one.is_all else one.role
    made = Varied("model", one.role, label, f"vary-{one.html_id}", one.stored, hint=_("one model a line"))
    made.texts = list((sent or {}).get(made.html_name, [])[:1])
    try:
        names = [parse_model(line.strip()) for line in made.text.splitlines() if line.strip()]
        made.values = list(dict.fromkeys(names))
    except InvalidValue as refused:
        made.error = str(refused)
    return made
