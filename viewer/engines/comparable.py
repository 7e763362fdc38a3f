"""What a comparison shows of a checkpoint, in the same shape for every engine."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Section(StrEnum):
    """A group of values, in the order of a comparison. ``viewer/comparison/labels.py`` has the labels."""

    INPUTS = "inputs"
    SETTINGS = "settings"
    STATE = "state"
    OUTPUTS = "outputs"
    MESSAGES = "messages"
    TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a checkpoint: a text, or a JSON value.

    Two checkpoints' parts with the same ``section``, ``key`` and ``trait`` are compared with each other.
    ``trait`` names the property of ``name`` that has this value, in English, to be translated; it may be
    empty.
    """

    section: Section
    key: str
    name: str
    value: Any
    trait: str = ""

    @property
    def id(self) -> str:
        """The id of this part in the address of a page."""
        return part_id(self.section, self.key, self.trait)


def part_id(section: str, key: str, trait: str = "") -> str:
    """The id of the part with this section, key and trait in the address of a page."""
    digest = hashlib.sha256("\0".join((section, key, trait)).encode(errors="replace")).hexdigest()[:12]
    return f"{section or 'overview'}-{digest}"


def parts_of(section: Section, values: Mapping[str, Any]) -> list[Part]:
    """A part for each named value."""
    return [Part(section, name, name, value) for name, value in values.items()]


def settings_of(key: str, name: str, traits: Iterable[tuple[str, Any]]) -> list[Part]:
    """The settings of one thing: pairs of an English label and a value. Empty ones are left out."""
    return [Part(Section.SETTINGS, key, name, value, trait) for trait, value in traits if value]
