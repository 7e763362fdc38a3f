"""What every engine's contents have in common, and the tabs that show the rest."""

from dataclasses import dataclass
from typing import Literal

# How many events one page of a timeline shows.
EVENTS_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent. ``model`` is empty if the checkpoint does not say."""

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
    """A tab of the checkpoint page. ``template`` is its part, ``label`` English, to be translated.

    ``compares_with`` says which checkpoint its context is given as well: the one at which the branch began,
    or the parent. ``shows_lineage`` if it shows the parent and the children.
    """

    name: str
    label: str
    template: str
    compares_with: Literal["origin", "parent"] = "origin"
    shows_lineage: bool = False
    # It shows which unit of the run ran after which.
    shows_unit_graph: bool = False
    # It says first why a checkpoint failed, so that the page need not.
    shows_failure: bool = False
    # It shows this checkpoint alone, without links and forms, so a share link may lead to it.
    is_shareable: bool = False
