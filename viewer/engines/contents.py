"""What every engine's contents have in common, and the tabs that show the rest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """Who does the work: ``model`` is empty if the checkpoint does not say."""

    id: str
    role: str
    goal: str
    backstory: str
    model: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the checkpoint page. ``template`` is its part, ``label`` English, to be translated."""

    name: str
    label: str
    template: str
