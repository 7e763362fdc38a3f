"""What a plan leaves open."""

from dataclasses import dataclass

from viewer.messages.message import UserMessage


@dataclass(frozen=True, slots=True)
class Route:
    """Where a decision's ``label`` leads: units' titles. Nothing follows if ``units`` is empty."""

    label: str
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision left to the run. ``is_open`` if it may be another than those of its routes."""

    router: str
    routes: tuple[Route, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan leaves open: ``decisions``, and ``notes`` that a person reads before the start."""

    decisions: tuple[Decision, ...] = ()
    notes: tuple[UserMessage, ...] = ()
