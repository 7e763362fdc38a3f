"""The graph of a run at the terminal: as lines, as Graphviz' DOT and as JSON."""

import json
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli.projects import source_of
from viewer.engines import engine_of
from viewer.engines.contents import GraphEdge
from viewer.host_requests import ReadSource, ask
from viewer.launching.preflight import code_graph_of
from viewer.models import Checkpoint
from viewer.presentation.run.units import PlainGraph, plain_graph_of
from viewer.records.bodies import stored_contents

# How DOT draws a unit of a status; others are drawn plainly.
STYLES = {
    "ran": "style=filled",
    "done": "style=filled",
    "next": "style=dashed",
    "waiting": 'style="filled,dashed"',
    "failed": "style=filled, color=red",
    "skipped": "style=dotted",
}
# No option names a project or an entry point.
NO_OPTIONS = dict.fromkeys(("project", "python", "env_file", "entrypoint", "graph", "kind"))


def graph_at(checkpoint: Checkpoint) -> PlainGraph:
    """The graph as of a checkpoint. Raises CommandError.

    It is what the project's source or a preflight check of its code says; nothing is run.
    """
    engine, contents = engine_of(checkpoint.location), stored_contents(checkpoint)
    folder, entry_point = source_of(checkpoint.location, contents, NO_OPTIONS)
    source = None
    if entry_point:
        source = ask(ReadSource(engine.name, str(folder), entry_point, contents.kind))
    if (own := engine.unit_graph(contents, source)) is not None:
        return PlainGraph(tuple(own.units), own.edges, own.units, own.is_inferred)
    code = code_graph_of(checkpoint.run, "")
    graph = plain_graph_of(checkpoint.run, checkpoint, code.graph if code else None)
    if graph is None:
        raise CommandError(_("The graph of this checkpoint is not known."))
    return graph


def graph_document(graph: PlainGraph) -> dict[str, Any]:
    """The graph as JSON values."""
    return {
        "is_inferred": graph.is_inferred,
        "nodes": [{"name": name, "status": status or None} for name, status in graph.units.items()],
        "edges": [
            {
                "from": edge.first,
                "to": edge.second,
                "is_conditional": edge.is_conditional,
                "label": edge.label or None,
                "is_inferred": edge.is_inferred,
            }
            for edge in graph.edges
        ],
    }


def graph_lines(graph: PlainGraph) -> Iterator[str]:
    """The graph as lines: each unit with its status, then each edge."""
    yield ""
    yield _("Graph, inferred from what ran:") if graph.is_inferred else _("Graph, as the code defines it:")
    width = max(map(len, graph.units))
    for name, status in graph.units.items():
        yield f"  {name:<{width}}  {status}".rstrip()
    yield ""
    for edge in graph.edges:
        yield f"  {edge.first} -> {edge.second}{_condition(edge)}"


def _condition(edge: GraphEdge) -> str:
    if not edge.is_conditional:
        return ""
    return f"  [{edge.label}]" if edge.label else "  " + _("[conditional]")


def dot_lines(graph: PlainGraph) -> list[str]:
    """The graph in Graphviz' language, which draws conditional edges dashed."""
    return ["digraph {", *_units(graph), *_edges(graph), "}"]


def _units(graph: PlainGraph) -> Iterator[str]:
    for name, status in graph.units.items():
        style = f" [{STYLES[status]}]" if status in STYLES else ""
        yield f"  {_quoted(name)}{style};"


def _edges(graph: PlainGraph) -> Iterator[str]:
    for edge in graph.edges:
        traits = [f"label={_quoted(edge.label)}"] if edge.label else []
        traits += ["style=dashed"] if edge.is_conditional else []
        shown = f" [{', '.join(traits)}]" if traits else ""
        yield f"  {_quoted(edge.first)} -> {_quoted(edge.second)}{shown};"


def _quoted(text: str) -> str:
    """A quoted id of DOT, in which only quotes and backslashes have a meaning. It is never markup."""
    return json.dumps(text, ensure_ascii=False)
