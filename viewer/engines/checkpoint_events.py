"""The events at which an engine can write a checkpoint."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events at which the engine can write a checkpoint, by the engine's own names and in its own order."""

    name: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventPreset:
    """A usual choice of events. ``label`` is English, and marked for translation."""

    label: str
    events: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that a form sends."""
        return ",".join(self.events)


@dataclass(frozen=True, slots=True)
class GroupTraits:
    """What a form shows for a group of events.

    ``is_frequent`` is true if a checkpoint at each of these events makes many checkpoints.
    """

    label: str
    is_frequent: bool = False
    hint: str = ""
