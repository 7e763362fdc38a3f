"""What a fork or resume will do, task by task, exactly as the engine will do it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """What happens to one step."""

    KEPT = "kept"  # finished, its output is used as it is
    EDITED = "edited"  # finished, the person's text is its output
    PINNED = "pinned"  # lies behind a step that runs again, yet is held: it is not called
    AGAIN = "again"  # finished, but runs again
    RUNS = "runs"  # had not run yet


class Reason(StrEnum):
    """Why; viewer/wording.py says it in words."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    EDITED = "edited"
    HELD = "held"
    READS_EDITED = "reads_edited"
    BEHIND_RERUN = "behind_rerun"
    ASKED = "asked"
    STALE_INPUT = "stale_input"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work of a checkpoint: a crew's task, a flow's method, or an agent's one run."""

    id: str
    title: str
    agent: str = ""
    done: bool = False
    # The text with its {placeholders}, by which a changed input is found in it.
    template: str = ""


@dataclass(frozen=True, slots=True)
class Edits:
    """What a person changed. ``outputs`` by unit id; ``again`` and ``keep`` are unit ids."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    again: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the plan. ``stale`` names the changed inputs that a kept text was made with."""

    unit: str
    position: int
    title: str
    agent: str
    action: Action
    reason: Reason
    stale: tuple[str, ...] = ()


class EditRefused(Exception):
    """An edit cannot hold. Its message tells which, and what to do."""


def plan_crew(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The steps of a crew, in order. Raises EditRefused for an edit that nothing can make hold."""
    raise NotImplementedError


def plan_flow(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The steps of a flow: its methods. Raises EditRefused."""
    raise NotImplementedError
