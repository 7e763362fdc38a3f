"""``forkline info`` and ``diff``: checkpoints in the terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import CHECKPOINT, Output, Subcommand, finding
from viewer.cli.finding import source_of
from viewer.cli.rows import checkpoint_document
from viewer.engines import engine_of
from viewer.engines.contents import GraphEdge
from viewer.engines.plan import MISSING
from viewer.engines.protocol import Contents, kind_of
from viewer.formats import count_text
from viewer.host_requests import ReadSource, ask
from viewer.launching.preflight import code_graph_of
from viewer.messages.translation import translate
from viewer.models import Checkpoint
from viewer.presentation.comparison import SECTIONS, ComparedRow, changed_lines, table_of
from viewer.presentation.comparison_sides import compared_checkpoints, reference_to
from viewer.presentation.run.graph import PlainGraph, plain_graph_of
from viewer.records.audit import Action, Audited, record
from viewer.records.bodies import first_contents, stored_contents


def _add_info_arguments(parser: CommandParser) -> None:
    finding.add_checkpoint_argument(parser)
    parser.add_argument(
        "--graph",
        nargs="?",
        const="text",
        choices=("text", "dot"),
        help=_("Show the graph of its run as well, or only the graph in Graphviz' DOT."),
    )


def _handle_info(options: Mapping[str, Any]) -> Output:
    """The stored, redacted copy, after an import of its location. Raises CommandError."""
    row = finding.checkpoint_at(options["checkpoint"])
    record(Action.OPENED, Audited.CHECKPOINT, row.pk)
    document, contents, first = info_document(row)
    lines = list(_info_lines(row, contents, first))
    if options["graph"]:
        graph = graph_at(row)
        document["graph"] = graph_document(graph)
        lines = dot_lines(graph) if options["graph"] == "dot" else [*lines, *graph_lines(graph)]
    return Output(document, lines)


def info_document(row: Checkpoint) -> tuple[dict[str, Any], Contents, Contents | None]:
    """The document of a checkpoint, what it holds, and what the first one of its run holds.

    Raises NotReadable without a readable copy.
    """
    contents, has_prompt = stored_contents(row), kind_of(engine_of(row.location), row.entity).prompt
    first = first_contents(row.run) if has_prompt else None
    return {**checkpoint_document(row), **engine_of(contents).info(contents, first)}, contents, first


def _info_lines(row: Checkpoint, contents: Contents, first: Contents | None) -> Iterable[str]:
    yield f"{row.checkpoint_id}  {row.entity} {row.name}".rstrip()
    parent = row.parent_checkpoint_id or (row.parent.checkpoint_id if row.parent else "-")
    yield "  " + _("on %(branch)s, after %(parent)s (%(edge)s), at %(trigger)s") % {
        "branch": row.branch,
        "parent": parent,
        "edge": row.get_parent_link_display(),
        "trigger": row.trigger or "-",
    }
    if row.step is None:
        yield f"  {_info_counts(row)}"
    if contents.is_of_newer_version:
        yield (
            "  "
            + _("written by %(engine)s %(version)s, which is newer than all versions that Forkline knows")
            % {"engine": engine_of(contents).title, "version": row.engine_version}
        )
    if contents.unknown:
        yield "  " + _("not understood: %s") % ", ".join(contents.unknown)
    yield from (f"  {line}" for line in engine_of(contents).info_lines(contents, first))


def _info_counts(row: Checkpoint) -> str:
    done, total = row.progress, row.total
    if total is not None:
        done = _("%(done)d of %(total)d done") % {"done": row.units_done, "total": total}
    events = ngettext("%(count)s event", "%(count)s events", row.event_count) % {
        "count": count_text(row.event_count)
    }
    tokens = ngettext("%(count)s token", "%(count)s tokens", row.tokens) % {"count": count_text(row.tokens)}
    return f"{done}, {events}, {tokens}"


INFO = Subcommand(
    gettext_lazy("Show one checkpoint: its inputs, tasks, state and agents."),
    _add_info_arguments,
    _handle_info,
)


# The graph of a run: as lines, as Graphviz' DOT and as JSON.


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
    lines = ["digraph {"]
    for name, status in graph.units.items():
        style = f" [{STYLES[status]}]" if status in STYLES else ""
        lines.append(f"  {_quoted(name)}{style};")
    for edge in graph.edges:
        traits = [f"label={_quoted(edge.label)}"] if edge.label else []
        traits += ["style=dashed"] if edge.is_conditional else []
        shown = f" [{', '.join(traits)}]" if traits else ""
        lines.append(f"  {_quoted(edge.first)} -> {_quoted(edge.second)}{shown};")
    return [*lines, "}"]


def _quoted(text: str) -> str:
    """A quoted id of DOT, in which only quotes and backslashes have a meaning. It is never markup."""
    return json.dumps(text, ensure_ascii=False)


# ``manage.py checkpoints diff``.


# As of diff(1).
FAILED = 2


def _add_diff_arguments(parser: CommandParser) -> None:
    for name in ("a", "b"):
        parser.add_argument(
            name,
            type=CHECKPOINT,
            metavar=name.upper(),
            help=_("A checkpoint as LOCATION#ID, or a checkpoint's file. A is the baseline."),
        )


def _handle_diff(options: Mapping[str, Any]) -> Output:
    """What differs between the contents of both, after an import of their locations. Raises CommandError."""
    try:
        found = [finding.checkpoint_at(options[name]) for name in ("a", "b")]
    except CommandError as error:
        error.returncode = FAILED
        raise
    record(Action.OPENED, Audited.COMPARISON, " ".join(str(one.pk) for one in found))
    document, rows = diff_document(found)
    return Output(document, list(_diff_lines(rows)), status=int(document["differs"]))


def diff_document(found: Sequence[Checkpoint]) -> tuple[dict[str, Any], list[ComparedRow]]:
    """The document of two compared checkpoints, and its rows. Raises CommandError for an unreadable one."""
    compared = compared_checkpoints([(reference_to(one), one) for one in found])
    for side in compared.sides:
        if side.problem:
            raise CommandError(translate(side.problem), returncode=FAILED)
    rows = [row for group in table_of(compared.sides, shows_same=True) for row in group.rows if row.section]
    document = {
        **dict(zip("ab", map(checkpoint_document, found), strict=True)),
        "common_ancestor": compared.ancestor.checkpoint_id if compared.ancestor else None,
        "differs": any(row.differs for row in rows),
        "rows": [_diff_row_document(row) for row in rows],
    }
    return document, rows


def _diff_row_document(row: ComparedRow) -> dict[str, Any]:
    """A row; the values of a row that is the same are not repeated, and missing ones are left out."""
    document = {"section": row.section, "name": row.name, "same": not row.differs}
    if row.differs:
        values = zip("ab", row.cells, strict=True)
        document |= {name: cell.value for name, cell in values if cell.value is not MISSING}
    return document


def _diff_lines(rows: list[ComparedRow]) -> Iterator[str]:
    for row in rows:
        if row.differs:
            yield f"{SECTIONS[row.section]}: {row.name}"
            yield from (f"  {line}" for line in changed_lines(*(cell.value for cell in row.cells)))
    same = sum(not row.differs for row in rows)
    yield ngettext("%(count)s value is the same.", "%(count)s values are the same.", same) % {
        "count": count_text(same)
    }


DIFF = Subcommand(
    gettext_lazy(
        "Compare two checkpoints. Exits with 0 if their contents are equal, 1 if they differ, and 2 on an "
        "error."
    ),
    _add_diff_arguments,
    _handle_diff,
)
