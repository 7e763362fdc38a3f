"""The plan of a fork or resume, whichever engine it is for: its steps, and what a person changed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from viewer.messages.message import UserFacingError


class Action(StrEnum):
    """What happens to one step."""

    KEPT = "kept"  # finished, its output is used as it is
    EDITED = "edited"  # finished, the person's text is its output
    PINNED = "pinned"  # follows a step that runs again, yet is held: it is not called
    AGAIN = "again"  # finished, but runs again
    RUNS = "runs"  # had not run yet
    MAY = "may"  # has not run, and will if a decision of the run leads to it


class Reason(StrEnum):
    """Why. ``viewer/messages/labels.py`` has the label of each."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    PASSED_OVER = "passed_over"
    EDITED = "edited"
    HELD = "held"
    READS_EDITED = "reads_edited"
    BEHIND_RERUN = "behind_rerun"
    REQUESTED = "requested"
    STALE_INPUT = "stale_input"
    TRIGGERED = "triggered"
    MAY_REPEAT = "may_repeat"
    ROUTED = "routed"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work of a checkpoint. A step of the engine may have several."""

    id: str
    title: str
    agent: str = ""
    done: bool = False
    # The text with its {placeholders}, by which a changed input is found in it.
    template: str = ""
    # Inputs that are part of its prompt without a placeholder, such as one in the agent's role.
    uses: frozenset[str] = frozenset()
    # How often it has finished.
    count: int = 0


@dataclass(frozen=True, slots=True)
class Edits:
    """What a person changed. ``outputs`` by unit id; ``again`` and ``keep`` are unit ids.

    Of engines whose state a reducer adds to: ``replace`` names the entries whose edited value replaces the
    stored one, and ``as_node`` the unit that the edited state is attributed to. ``answers`` are to what the
    checkpoint waits for, by its id, or under an empty one if it waits for one answer.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    again: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    replace: frozenset[str] = frozenset()
    as_node: str = ""
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan. ``stale`` names the changed inputs that a kept output was made with."""

    unit: str
    position: int
    title: str
    agent: str
    action: Action
    reason: Reason
    stale: tuple[str, ...] = ()


def plain_steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps as plain values, for a job's row and the terminal's JSON."""
    return [{**asdict(step), "stale": list(step.stale)} for step in steps]


class EditRefused(UserFacingError):
    """An edit that the engine cannot honour. Its message says which, and what to do."""
