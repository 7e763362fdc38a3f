"""The plan of a fork or resume of any engine: its steps, what a person changed, and what it leaves open."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from viewer.messages.message import UserFacingError, UserMessage

# The steps, and what a person changed.


class Action(StrEnum):
    """What happens to one step."""

    KEPT = "kept"  # finished, its output is used as it is
    EDITED = "edited"  # finished, the person's text is its output
    PINNED = "pinned"  # finished, and kept by the person although a step before it runs again
    AGAIN = "again"  # finished, but runs again
    RUNS = "runs"  # had not run yet
    MAY = "may"  # has not run, and will if a decision of the run leads to it


class Reason(StrEnum):
    """Why an action happens to a step. ``viewer/launching/labels.py`` has the labels."""

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
    CONDITION = "condition"
    RUNS_AGAIN = "runs_again"
    STARTS_OVER = "starts_over"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work of a checkpoint. A step of the engine may have several."""

    id: str
    title: str
    agent: str = ""
    done: bool = False
    # The text with its {placeholders}, which show whether the unit uses a changed input.
    template: str = ""
    # Inputs that its prompt uses without a placeholder in ``template``, such as one in the agent's role.
    uses: frozenset[str] = frozenset()
    # The number of times that it has finished.
    count: int = 0
    # Whether it runs beside the units of this kind around it, and reads none of them.
    runs_beside: bool = False
    # Whether a condition, which only the run evaluates, decides that it runs.
    is_conditional: bool = False


@dataclass(frozen=True, slots=True)
class Edits:
    """What a person changed. ``outputs`` are by unit id; ``again`` and ``keep`` are unit ids.

    If reducers add writes to the state, ``replace`` names the entries whose edited value replaces the stored
    one, and ``as_node`` the unit that the edited state is attributed to. ``answers`` are by the id of the
    question that the checkpoint waits for; the id may be empty if there is only one question.
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
    """One step of the plan. ``stale`` names the changed inputs whose former values a kept output used."""

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


def steps_in(plan: Iterable[Mapping[str, Any]]) -> list[Step]:
    """The steps of a job's row."""
    return [
        Step(
            **{
                **step,
                "action": Action(step["action"]),
                "reason": Reason(step["reason"]),
                "stale": tuple(step["stale"]),
            }
        )
        for step in plan
    ]


class EditRefused(UserFacingError):
    """The engine cannot apply an edit. The message names the edit and says what to do."""


# What a plan leaves open.


@dataclass(frozen=True, slots=True)
class Route:
    """One outcome of a decision. ``units`` are the titles of the units that follow; empty if none does."""

    label: str
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that the run makes. ``is_open`` is true if it may have an outcome that ``routes`` lacks."""

    router: str
    routes: tuple[Route, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan leaves open: ``decisions``, and ``notes`` that a person reads before the start."""

    decisions: tuple[Decision, ...] = ()
    notes: tuple[UserMessage, ...] = ()
