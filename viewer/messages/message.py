"""Messages for people as plain data: a code of the catalogue and the values that fill its text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewer.messages.catalog import CATALOG

# A placeholder names a value. Nothing else of printf's syntax is understood, so no message can misuse it.
_PLACEHOLDER = re.compile(r"%(?:%|\((\w+)\)([dsr]))")
# Messages may be values of messages, this deep. Together with the catalogue's texts, which have at most
# MAX_PLACEHOLDERS placeholders each, this bounds the text that an event of a run can expand to.
MAX_DEPTH = 3
MAX_PLACEHOLDERS = 10
# A text without a code, such as the message of a library's exception.
PLAIN_TEXT = "plain_text"
UNKNOWN_CODE = "unknown_code"


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message for a person. ``str()`` gives it in English; ``translate`` in the reader's language."""

    code: str
    values: "dict[str, Value]" = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text()

    def text(self, translated: Callable[[str], str] = str) -> str:
        """Its text, ``translated``, filled with its values. Of an unknown code, the code and the values."""
        if self.code == PLAIN_TEXT:
            return str(self.values.get("text", ""))
        template = CATALOG.get(self.code)
        if template is None:
            shown = ", ".join(
                f"{name}={_shown(value, 's', translated)}" for name, value in self.values.items()
            )
            return _fill(CATALOG[UNKNOWN_CODE], {"code": self.code, "values": shown}, translated)
        return _fill(template, self.values, translated)

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it, for ``message_from``."""
        return {"code": self.code, "values": {name: _as_data(value) for name, value in self.values.items()}}


# A list holds sentences, which are joined by spaces.
Value = str | int | float | UserMessage | list[UserMessage]


class UserFacingError(Exception):
    """An error whose ``message`` is shown to a person.

    Takes the message, or its code and its values by name.
    """

    def __init__(self, message: str | UserMessage, /, **values: Value) -> None:
        self.message = message if isinstance(message, UserMessage) else UserMessage(message, values)
        super().__init__(str(self.message))


def plain_text(text: object) -> UserMessage:
    """A message that says this text, in whatever language it is."""
    return UserMessage(PLAIN_TEXT, {"text": str(text)})


def message_from(data: object) -> UserMessage | None:
    """The message that was stored or sent as ``data``; None if there is none.

    A text alone becomes a message that says it.
    """
    if isinstance(data, str):
        return plain_text(data) if data else None
    return _message_in(data, MAX_DEPTH)


def _message_in(data: object, depth: int) -> UserMessage | None:
    match data:
        case {"code": str(code), "values": Mapping() as found} if depth:
            values = {str(name): _value_in(value, depth - 1) for name, value in found.items()}
            return UserMessage(code, {name: value for name, value in values.items() if value is not None})
    return None


def _value_in(data: object, depth: int) -> Value | None:
    if isinstance(data, list):
        return [sentence for one in data if (sentence := _message_in(one, depth)) is not None]
    return data if isinstance(data, str | int | float) else _message_in(data, depth)


def _as_data(value: Value) -> Any:
    if isinstance(value, UserMessage):
        return value.as_data()
    return [sentence.as_data() for sentence in value] if isinstance(value, list) else value


def _fill(template: str, values: Mapping[str, Value], translated: Callable[[str], str]) -> str:
    def value_at(found: re.Match[str]) -> str:
        name, conversion = found.groups()
        if name is None:
            return "%"
        # A placeholder without a value stays.
        return _shown(values[name], conversion, translated) if name in values else found[0]

    return _PLACEHOLDER.sub(value_at, translated(template))


def _shown(value: Value, conversion: str, translated: Callable[[str], str]) -> str:
    if isinstance(value, UserMessage):
        return value.text(translated)
    if isinstance(value, list):
        return " ".join(sentence.text(translated) for sentence in value)
    return repr(value) if conversion == "r" else str(value)


def redacted_message(message: UserMessage, hide: Callable[[Any], Any]) -> UserMessage:
    """The message without secrets: ``hide`` takes and returns JSON values.

    A secret may show only in the whole text. Then the message becomes that text, hidden.
    """
    text = str(hide(str(message)))
    hidden = message_from(message.as_data() | {"values": hide(message.as_data()["values"])})
    return hidden if hidden is not None and str(hidden) == text else plain_text(text)
