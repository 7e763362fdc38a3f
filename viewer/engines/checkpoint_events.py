"""The events at which an engine can write a checkpoint."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events at which the engine can write a checkpoint. The names are the engine's own, in its order."""

    name: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupTraits:
    """What a form says of a group of events. ``is_frequent``: writing at each makes many checkpoints."""

    label: str
    is_frequent: bool = False
    hint: str = ""
