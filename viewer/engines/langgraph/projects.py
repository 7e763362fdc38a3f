"""Projects of LangGraph: their entry points and what those ask for."""

from collections.abc import Sequence
from pathlib import Path

from viewer.engines.checkpoint_events import EventGroup
from viewer.engines.entry_points import EntryPoint, InputName


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """The entry points of a project's source."""
    return ()


def entry_point_for(folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
    """The entry point that a run belongs to; empty if unclear."""
    return entry_points[0] if len(entry_points) == 1 else ""


def entry_point_kinds(folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
    """The root kind of each entry point."""
    return dict.fromkeys(entry_points, "graph")


def title_of(entry_point: str) -> str:
    """A short name of an entry point."""
    return entry_point.rpartition(":")[2]


def is_entry_point(text: str) -> bool:
    """Whether a text can name an entry point."""
    return bool(text.partition(":")[2])


def input_names(folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
    """The inputs that an entry point's source names."""
    return ()


def checkpoint_events(interpreter: Path | None) -> tuple[EventGroup, ...]:
    """No events: LangGraph writes a checkpoint after every super-step."""
    return ()
