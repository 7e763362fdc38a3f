"""Words from rooms that know no Django: English where they are written, translated where they are shown."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

# What a text may ask for: a value by its name, and nothing that a text out of a row could do harm with.
_PLACE = re.compile(r"%(?:%|\((\w+)\)([dsr]))")
# No text of ours has more places, and no words of ours stand deeper in others: together they bound what a
# line of a child can be blown up to.
MOST_PLACES, MOST_DEPTH = 10, 2


@dataclass(frozen=True, slots=True)
class Words:
    """What a person is told, as plain data: ``text``, filled with ``values``. As a string it is English."""

    text: str
    values: "dict[str, Value]" = field(default_factory=dict)

    def __str__(self) -> str:
        return self.filled()

    def filled(self, translated: Callable[[str], str] = str) -> str:
        """The text, ``translated``, with its values in it. One without values is left as it is."""
        text = translated(self.text) if self.text else ""
        if not self.values:
            return text

        def value_at(place: re.Match[str]) -> str:
            # A place that nothing is known for stays.
            value = self.values.get(place[1], place[0]) if place[1] else "%"
            if isinstance(value, Words):
                return value.filled(translated)
            if isinstance(value, list):
                return " ".join(sentence.filled(translated) for sentence in value)
            return repr(value) if place[2] == "r" else str(value)

        return _PLACE.sub(value_at, text)

    def plain(self) -> dict[str, Any]:
        """As they are stored beside their English, for ``words_from``; empty where that says it all."""
        return asdict(self) if self.values else {}


# A list is one of sentences.
Value = str | int | float | Words | list[Words]


def words_from(plain: object, english: str) -> Words:
    """The words that were stored or sent beside their ``english``; that alone where they do not say it."""
    words = _words_in(plain, MOST_DEPTH)
    return words if words is not None and str(words) == english else Words(english)


def _words_in(plain: object, depth: int) -> Words | None:
    match plain:
        case {"text": str(text), "values": dict(found)} if text.count("%") <= MOST_PLACES and depth:
            values = {str(name): _value_in(value, depth - 1) for name, value in found.items()}
            known = {name: value for name, value in values.items() if value is not None}
            return Words(text, known) if len(known) == len(values) else None
    return None


def _value_in(plain: object, depth: int) -> Value | None:
    if isinstance(plain, list):
        sentences = [words for one in plain if (words := _words_in(one, depth)) is not None]
        return sentences if len(sentences) == len(plain) else None
    return plain if isinstance(plain, str | int | float) else _words_in(plain, depth)


class Worded(Exception):
    """Its ``words`` are for a person: a text, and the values that fill it."""

    def __init__(self, text: str, /, **values: Value) -> None:
        self.words = Words(text, values)
        super().__init__(str(self.words))


def gettext_noop(text: str) -> str:
    """The text itself, marked for whoever collects what is to be translated."""
    return text
