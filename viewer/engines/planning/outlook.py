"""What a plan leaves open."""

from dataclasses import dataclass

from viewer.messages.message import UserMessage


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
