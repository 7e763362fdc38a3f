"""What every engine's contents have in common, and the tabs that show the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
