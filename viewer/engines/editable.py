"""What a checkpoint holds that a person may change before a fork, and what a run reads unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewer.messages.message import UserMessage


class Missing:
    """The type of ``MISSING``."""


# Represents a value that the checkpoint does not hold.
MISSING = Missing()


@dataclass(frozen=True, slots=True)
class EditableOutput:
    """The output of a finished unit, which a person may replace.

    ``value`` is its JSON value, None if it is a text.
    """

    unit: str
    position: int
    title: str
    agent: str
    text: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What a checkpoint waits for. ``id`` is empty if its engine gives it none."""

    id: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Editable:
    """What a person may change before a fork. ``inputs`` and ``state`` are None if there are none to edit.

    A value that the checkpoint does not hold is ``MISSING``.
    """

    inputs: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    outputs: tuple[EditableOutput, ...] = ()
    # The units that an edited state can be attributed to.
    as_nodes: tuple[str, ...] = ()
    # What it waits for, which a fork can answer.
    questions: tuple[OpenQuestion, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value of a checkpoint that a run reads, and its label for a person."""

    label: UserMessage
    value: Any
