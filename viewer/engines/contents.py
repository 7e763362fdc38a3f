"""What an engine decodes of a checkpoint, in one shape for every engine."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

# A short title for a unit that has only a description.


MAX_TITLE = 80
_SENTENCE_END = re.compile(r"[.!?:;](?=\s|$)|[\u3002\uff01\uff1f]")  # including full-width forms


def short_title(text: str) -> str:
    """The text on one line if that is short, else its first sentence, else its first words and an ellipsis.

    The title has at most ``MAX_TITLE`` characters.
    """
    line = " ".join(text.split())
    if len(line) <= MAX_TITLE:
        return line
    end = _SENTENCE_END.search(line, 1, MAX_TITLE)
    if end:
        return line[: end.start() if end[0] in ".:;\u3002" else end.end()]
    words = line[:MAX_TITLE].rpartition(" ")[0] or line[: MAX_TITLE - 1]
    return f"{words.rstrip(' ,;:-')}…"


# What every engine's contents have in common, and the tabs that show the rest.


# How many events one page of a timeline shows.
EVENTS_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent. ``model`` is empty if the checkpoint does not record it."""

    id: str
    role: str
    goal: str
    backstory: str
    model: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed: the name of what failed, and the error's text."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the checkpoint page. ``template`` renders the tab. ``label`` is English, to be translated.

    ``compares_with`` names the second checkpoint that the context is made from, if any: the one at which the
    branch began, or the parent. ``shows_lineage`` is true if the tab shows the parent and the children.
    """

    name: str
    label: str
    template: str
    compares_with: Literal["", "origin", "parent"] = ""
    shows_lineage: bool = False
    # The tab shows the order in which the units of the run ran.
    shows_unit_graph: bool = False
    # The tab begins with the failure, so that the page does not show it as well.
    shows_failure: bool = False
    # The tab shows the runs that the checkpoint called, and is left out if it called none.
    shows_called_runs: bool = False
    # The tab shows this checkpoint alone, without links and forms, so a share link may lead to it.
    is_shareable: bool = False


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge between units. ``label`` is the result of the condition that leads along it."""

    first: str
    second: str
    is_conditional: bool = False
    label: str = ""
    # The edge is not in the code, but one unit ran after the other.
    is_inferred: bool = False


@dataclass(frozen=True, slots=True)
class UnitGraph:
    """Units by their status, which is empty if they have not run, and the edges between them."""

    units: Mapping[str, str]
    edges: tuple[GraphEdge, ...]
    # Whether it is not known from the code.
    is_inferred: bool


# What a comparison shows of a checkpoint, in the same shape for every engine.


class Section(StrEnum):
    """A group of values, in the order of a comparison. ``presentation.comparison`` has the labels."""

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
    empty. ``unit`` is the unit of an output that a fork can edit.
    """

    section: Section
    key: str
    name: str
    value: Any
    trait: str = ""
    unit: str = ""

    @property
    def edited(self) -> str:
        """What a fork edits to change it, such as ``state:topic``; empty if it cannot."""
        if self.section in (Section.INPUTS, Section.STATE):
            return f"{self.section}:{self.key}"
        return f"{self.section}:{self.unit}" if self.unit else ""

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


# The texts of a checkpoint that the search finds.


class TextKind(StrEnum):
    """What a text is, as rows store it."""

    INPUT = "input"
    OUTPUT = "output"
    PROMPT = "prompt"
    MESSAGE = "message"
    TOOL = "tool"
    ERROR = "error"
    STATE = "state"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class SearchText:
    """One text. ``query_string`` is the query string of the page that shows it, such as ``tab=inputs``.

    ``unit``, ``agent`` and ``model`` are empty if it belongs to none.
    """

    kind: TextKind
    text: str
    query_string: str
    unit: str = ""
    agent: str = ""
    model: str = ""
