"""Finds the graphs that a project's ``langgraph.json`` names. Nothing is imported."""

import re
from collections.abc import Sequence
from pathlib import Path

from viewer.engines.checkpoint_events import EventGroup
from viewer.engines.entry_points import EntryPoint, EntryPointLabels
from viewer.engines.langgraph.kinds import GRAPH
from viewer.engines.langgraph.project_source.configuration import configuration
from viewer.messages.marking import gettext_noop as _

MAX_GRAPHS = 50
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
LABELS = EntryPointLabels(
    hint=_("A graph continues in its own code. Choose what langgraph.json names."),
    form=_("package.module:name"),
    example="support.graph:graph",
)


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """The graphs in the project's ``langgraph.json``; empty without that file."""
    graphs = configuration(folder).get("graphs")
    if not isinstance(graphs, dict):
        return ()
    named = [value.get("path") if isinstance(value, dict) else value for value in graphs.values()]
    found = [name for one in named[:MAX_GRAPHS] if isinstance(one, str) and (name := _importable(one))]
    return tuple(EntryPoint(name, GRAPH.name) for name in dict.fromkeys(found))


def _importable(named: str) -> str:
    """``module:graph`` for ``./src/module.py:graph``; empty if that is not an importable name."""
    place, _colon, graph = named.strip().rpartition(":")
    if place.endswith(".py"):
        parts = Path(place.removesuffix(".py")).parts
        place = ".".join(parts[1:] if parts[:1] == ("src",) else parts)
    name = f"{place}:{graph}"
    return name if is_entry_point(name) else ""


def entry_point_for(folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
    """The project's only entry point; empty if it has several, since a thread does not record its graph."""
    return entry_points[0] if len(entry_points) == 1 else ""


def entry_point_kinds(folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
    """The root kind of each entry point."""
    return dict.fromkeys(entry_points, GRAPH.name)


def title_of(entry_point: str) -> str:
    """A short name of an entry point."""
    return entry_point.rpartition(":")[2]


def is_entry_point(text: str) -> bool:
    """Whether a text can name an entry point."""
    return ENTRY_POINT.fullmatch(text) is not None


def checkpoint_events(interpreter: Path | None) -> tuple[EventGroup, ...]:
    """Returns no events: LangGraph writes a checkpoint after every super-step."""
    return ()
