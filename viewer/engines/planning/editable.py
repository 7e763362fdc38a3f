"""What a checkpoint holds that a person may change before a fork, and what a run reads unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewer.messages.message import UserMessage


class Missing:
    """The type of ``MISSING``."""


# The value of a field that the checkpoint does not have.
MISSING = Missing()


@dataclass(frozen=True, slots=True)
class EditableOutput:
    """The output of a finished unit, which a person may replace.

    ``value`` is the output as a JSON value; None if the output is a text.
    """

    unit: str
    position: int
    title: str
    agent: str
    text: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class EditableMessage:
    """A message of a conversation, at its ``position`` in the entry. ``id`` is empty if it has none.

    ``content`` is a text, or a list of parts. ``calls`` are the tool calls that the message requests, as JSON
    values, and ``answers_call`` is the id of the tool call that the message answers.
    """

    position: int
    id: str
    role: str
    name: str
    content: Any
    calls: Sequence[Any] = ()
    answers_call: str = ""


@dataclass(frozen=True, slots=True)
class MessageEdit:
    """An edited or removed message at ``position``, or a new message if ``position`` is None.

    ``before`` is the position of the stored message that a new message precedes; None adds it at the end.
    """

    position: int | None
    role: str = ""
    content: Any = ""
    calls: Sequence[Any] = ()
    answers_call: str = ""
    is_removed: bool = False
    before: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A part of an answer that a person types. ``path`` holds the keys and indexes that lead to it.

    ``kind`` is the value of a ``launching.values.Kind``. ``choices`` are the only values that it may have;
    empty if it may have any.
    """

    path: tuple[str | int, ...]
    label: str
    kind: str = "text"
    choices: tuple[Any, ...] = ()
    stored: Any = MISSING
    is_required: bool = False
    help: str = ""


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """An answer that a question suggests: ``value``, completed by what a person types into ``fields``.

    ``effect`` is an English sentence on what the answer does; empty if that is not known.
    """

    label: str
    value: Any
    fields: tuple[AnswerField, ...] = ()
    effect: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether this is an answer if the person types nothing."""
        return not any(field.is_required or field.stored is not MISSING for field in self.fields)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What a checkpoint or a run waits for. ``id`` is empty if the engine does not give questions ids."""

    id: str
    prompt: str
    # The answers that the question suggests, if any. No two have the same label.
    options: tuple[AnswerOption, ...] = ()
    # The JSON schema of the answer, if the question has one (``planning.answer_schema``).
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Editable:
    """What a person may change before a fork. ``inputs`` and ``state`` are None if they cannot be edited.

    A value that the checkpoint does not hold is ``MISSING``.
    """

    inputs: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    outputs: tuple[EditableOutput, ...] = ()
    # The entries of the state whose value cannot be edited.
    opaque: tuple[str, ...] = ()
    # The units that an edited state can be attributed to.
    as_nodes: tuple[str, ...] = ()
    # The questions that the checkpoint waits for. A fork can answer them.
    questions: tuple[OpenQuestion, ...] = ()
    # The entries of the state that are lists of messages.
    conversations: Mapping[str, tuple[EditableMessage, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value of a checkpoint that a run reads, and its label for a person."""

    label: UserMessage
    value: Any
