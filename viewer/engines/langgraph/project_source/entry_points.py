"""Finds the graphs that a project's ``langgraph.json`` names. Nothing is imported."""

import re
from collections.abc import Sequence
from pathlib import Path

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
    found = dict.fromkeys(named_entry_points(folder).values())
    return tuple(EntryPoint(entry_point, GRAPH.name) for entry_point in found)


def named_entry_points(folder: Path) -> dict[str, str]:
    """The entry points of the graphs in the project's ``langgraph.json``, by the graphs' names."""
    graphs = configuration(folder).get("graphs")
    if not isinstance(graphs, dict):
        return {}
    found = {}
    for name, value in list(graphs.items())[:MAX_GRAPHS]:
        path = value.get("path") if isinstance(value, dict) else value
        if isinstance(path, str) and (entry_point := _importable(path)):
            found[name] = entry_point
    return found


def _importable(named: str) -> str:
    """``module:graph`` for ``./src/module.py:graph``; empty if that is not an importable name."""
    module, _colon, graph = named.strip().rpartition(":")
    if module.endswith(".py"):
        parts = Path(module.removesuffix(".py")).parts
        module = ".".join(parts[1:] if parts[:1] == ("src",) else parts)
    name = f"{module}:{graph}"
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
